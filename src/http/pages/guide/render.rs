//! Markdown as HTML.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::collections::HashMap;

/// A page's HTML. Headings get the anchors that code hosts give them, and links between files become links between
/// routes. Links to files that are no pages become their text. Pictures are left out: they are not in the program, which shows
/// the real thing at `/ui`.
pub fn rendered(base: &str, markdown: &str) -> String {
    let mut events = parsed(markdown);
    let mut anchors = anchors(&events).into_iter();
    for event in &mut events {
        match event {
            Event::Start(Tag::Heading { id, .. }) => *id = anchors.next().map(CowStr::from),
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

fn parsed(markdown: &str) -> Vec<Event<'_>> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    without_dead_links(without_pictures(Parser::new_ext(markdown, options))).collect()
}

/// A text as HTML that shows it.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    html::push_html(&mut escaped, std::iter::once(Event::Text(text.into())));
    escaped
}

/// What lies between a heading and the next one.
pub struct Part {
    pub anchor: String,
    /// Of its heading: 1 is the page's title.
    pub level: usize,
    pub heading: String,
    /// Without markup and line breaks.
    pub text: String,
}

/// The parts of a page, which begins with a heading.
pub fn parts(markdown: &str) -> Vec<Part> {
    let events = parsed(markdown);
    let (mut parts, mut in_heading): (Vec<Part>, bool) = (Vec::new(), false);
    let mut anchors = anchors(&events).into_iter();
    for event in &events {
        if let Event::Start(Tag::Heading { level, .. }) = event {
            let (anchor, level) = (anchors.next().unwrap_or_default(), *level as usize);
            parts.push(Part { anchor, level, heading: String::new(), text: String::new() });
            in_heading = true;
        }
        let Some(part) = parts.last_mut() else { continue };
        match event {
            Event::Text(words) | Event::Code(words) if in_heading => part.heading += words,
            Event::Text(words) | Event::Code(words) => part.text += &words.replace('\n', " "),
            Event::End(TagEnd::Heading(_)) => in_heading = false,
            Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link) => {}
            Event::SoftBreak | Event::HardBreak | Event::End(_) => part.text.push(' '),
            _ => {}
        }
    }
    parts
}

/// Without images and their texts.
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

/// The same without links to files of the repository that the program has not; their texts stay.
fn without_dead_links<'a>(
    events: impl Iterator<Item = Event<'a>>,
) -> impl Iterator<Item = Event<'a>> {
    let mut dead = false;
    events.filter(move |event| match event {
        Event::Start(Tag::Link { dest_url, .. }) => {
            let elsewhere = dest_url.starts_with('#') || dest_url.contains("://");
            dead = !elsewhere && route(dest_url).is_none();
            !dead
        }
        Event::End(TagEnd::Link) => !dead,
        _ => true,
    })
}

/// The anchors of the headings, in their order. One that is there already gets a number, as on code hosts.
fn anchors(events: &[Event<'_>]) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut unique = |anchor: String| {
        let before = seen.entry(anchor.clone()).or_default();
        *before += 1;
        if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
    };
    let is_heading = |event: &Event<'_>| matches!(event, Event::Start(Tag::Heading { .. }));
    let headings = events.iter().enumerate().filter(|(_, event)| is_heading(event));
    headings.map(|(at, _)| unique(anchor(&events[at + 1..]))).collect()
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
            "## What is `X-Y`, really?\n[a](flags.md#log) [b](#x) [c](https://d/e.md) ![d *e*](f/g.png) \
            [h `i`](j/k.py) [l](../m.md)",
        );
        assert!(html.contains("<h2 id=\"what-is-x-y-really\">"), "{html}");
        let twice = parts("# A\n## B c\n### B, c");
        let twice: Vec<_> = twice.iter().map(|part| (&*part.anchor, part.level)).collect();
        assert_eq!(twice, [("a", 1), ("b-c", 2), ("b-c-1", 3)]);
        for link in ["\"/q/guide/flags#log\"", "\"#x\"", "\"https://d/e.md\""] {
            assert!(html.contains(link), "{link}: {html}");
        }
        assert!(!html.contains("g.png") && !html.contains("<em>"), "{html}");
        assert!(html.contains(" h <code>i</code> l</p>"), "{html}");
    }
}
