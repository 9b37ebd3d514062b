//! Markdown as HTML.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// A page's HTML. Headings get the anchors that code hosts give them, and links between files become links between
/// routes. Pictures are left out: they are not in the program, which shows the real thing at `/ui`.
pub fn rendered(base: &str, markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    let mut events: Vec<Event<'_>> = without_pictures(Parser::new_ext(markdown, options)).collect();
    for at in 0..events.len() {
        let anchor = anchor(&events[at + 1..]);
        match &mut events[at] {
            Event::Start(Tag::Heading { id, .. }) => *id = Some(anchor.into()),
            Event::Start(Tag::Link { dest_url, .. }) => {
                if let Some(route) = route(dest_url) {
                    *dest_url = CowStr::from(format!("{base}{route}"));
                }
            }
            _ => {}
        }
    }
    let mut text = String::new();
    html::push_html(&mut text, events.into_iter());
    text
}

/// The same without images and their texts.
fn without_pictures<'a>(
    events: impl Iterator<Item = Event<'a>>,
) -> impl Iterator<Item = Event<'a>> {
    let mut depth = 0;
    events.filter(move |event| match event {
        Event::Start(Tag::Image { .. }) => {
            depth += 1;
            false
        }
        Event::End(TagEnd::Image) => {
            depth -= 1;
            false
        }
        _ => depth == 0,
    })
}

/// The anchor of a heading whose content begins here: in lower case, blanks as dashes, without punctuation.
fn anchor(content: &[Event<'_>]) -> String {
    let content =
        content.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let words = content.map(|event| match event {
        Event::Text(text) | Event::Code(text) => text.as_ref(),
        _ => "",
    });
    let words: String = words.collect();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Where a link to another page's file leads: `flags.md#who` to `/guide/flags#who`.
fn route(link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let name = file.strip_suffix(".md").filter(|name| !name.contains('/'))?;
    let hash = if anchor.is_empty() { "" } else { "#" };
    Some(format!("/guide/{name}{hash}{anchor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_get_anchors_and_links_lead_to_routes() {
        let html = rendered(
            "/q",
            "## What is `X-Y`, really?\n[a](flags.md#log) [b](#x) [c](https://d/e.md) ![d *e*](f/g.png)",
        );
        assert!(html.contains("<h2 id=\"what-is-x-y-really\">"), "{html}");
        for link in ["\"/q/guide/flags#log\"", "\"#x\"", "\"https://d/e.md\""] {
            assert!(html.contains(link), "{link}: {html}");
        }
        assert!(!html.contains("g.png") && !html.contains("<em>"), "{html}");
    }
}
