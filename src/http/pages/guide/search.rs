//! The search of the guide. What is looked through is made once, of the pages' Markdown; a request looks words up in it, so it
//! costs little, and needs no script in the browser.

use super::{
    pages::{self, Page},
    render::{Part, parts},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

/// The most words of a query that count, results, and bytes of the text that a result shows.
const MAX_WORDS: usize = 8;
const MAX_RESULTS: usize = 20;
const SHOWN_BYTES: usize = 200;

/// A part of a page that has all the words.
pub struct Found {
    pub page: &'static Page,
    pub part: &'static Part,
    /// The text around the first of the words in it.
    pub excerpt: &'static str,
}

/// Each part of each page, and how much a word says about the parts that have it, by the places of these.
struct Index {
    parts: Vec<(&'static Page, Part)>,
    words: BTreeMap<String, HashMap<usize, usize>>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index { parts: Vec::new(), words: BTreeMap::new() };
    for page in pages::all() {
        for (nth, part) in parts(&page.text()).into_iter().enumerate() {
            let place = index.parts.len();
            let mut add = |text: &str, weight, most| {
                for (_, word) in words(text) {
                    let weights = index.words.entry(word.to_lowercase()).or_default();
                    let known = weights.entry(place).or_default();
                    *known = (*known).max(most).min(*known + weight);
                }
            };
            add(&part.text, 1, 4);
            // The title of a page says more than a heading in it.
            add(&part.heading, if nth == 0 { 15 } else { 10 }, usize::MAX);
            index.parts.push((page, part));
        }
    }
    index
});

/// The words of a text and where they begin, in bytes.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let begins = |word: &str| word.as_ptr().addr() - text.as_ptr().addr();
    words.filter(|word| !word.is_empty()).map(move |word| (begins(word), word))
}

/// The parts of the guide that have all words of the query, or words that begin so; what fits best comes first.
pub fn search(query: &str) -> Vec<Found> {
    let mut asked: Vec<String> =
        words(query).take(MAX_WORDS).map(|(_, word)| word.to_lowercase()).collect();
    asked.sort();
    asked.dedup();
    let mut scores: Option<HashMap<usize, usize>> = None;
    for word in &asked {
        let mut of_word: HashMap<usize, usize> = HashMap::new();
        let longer =
            INDEX.words.range(word.clone()..).take_while(|(known, _)| known.starts_with(word));
        for (known, weights) in longer {
            for (place, weight) in weights {
                let score = of_word.entry(*place).or_default();
                *score = (*score).max(weight * if known == word { 2 } else { 1 });
            }
        }
        scores = Some(match scores {
            None => of_word,
            Some(before) => {
                let both = before.into_iter();
                both.filter_map(|(place, score)| Some((place, score + of_word.get(&place)?)))
                    .collect()
            }
        });
    }
    let mut found: Vec<(usize, usize)> = scores.unwrap_or_default().into_iter().collect();
    found.sort_by_key(|(place, score)| (std::cmp::Reverse(*score), *place));
    let found = found.into_iter().take(MAX_RESULTS).map(|(place, _)| {
        let (page, part) = &INDEX.parts[place];
        Found { page, part, excerpt: excerpt(&part.text, &asked) }
    });
    found.collect()
}

/// The text around the first word that is asked for; its beginning if there is none.
fn excerpt<'a>(text: &'a str, asked: &[String]) -> &'a str {
    let is_asked = |word: &str| asked.iter().any(|asked| word.to_lowercase().starts_with(asked));
    let first = words(text).find(|(_, word)| is_asked(word)).map_or(0, |(begin, _)| begin);
    let blank = |at: usize| text.as_bytes().get(at).is_none_or(|byte| *byte == b' ');
    let begin = (first.saturating_sub(SHOWN_BYTES / 3)..first).find(|at| *at == 0 || blank(*at));
    let begin = begin.unwrap_or(first);
    let end = (begin..=(begin + SHOWN_BYTES).min(text.len())).rev().find(|at| blank(*at));
    text[begin..end.unwrap_or(begin)].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_the_words_in_its_heading_comes_first_and_all_words_must_be_there() {
        let first = |query: &str| {
            search(query).first().map(|found| (found.page.name, found.part.anchor.clone()))
        };
        let is = |page, anchor: &str| Some((page, anchor.to_owned()));
        assert_eq!(first("Key File"), is("security", "the-key-file"));
        assert_eq!(first("redis_unavail"), is("errors", "redis_unavailable"));
        assert_eq!(first("sentinel"), is("sentinel", "a-redis-that-fails-over-sentinel"));
        assert_eq!(first("sentinel qqqq"), None);
        assert_eq!(first(" -:<> "), None);
        let all = search("message");
        assert_eq!(all.len(), MAX_RESULTS);
        for Found { excerpt, .. } in all {
            assert!(excerpt.len() <= SHOWN_BYTES, "{excerpt}");
        }
        assert!(search("helm install")[0].excerpt.contains("Helm"));
    }

    #[test]
    fn an_excerpt_has_whole_words_of_any_script() {
        let text = format!("{} größe {}", "ärger ".repeat(50), "übel ".repeat(80));
        let shown = excerpt(&text, &["größ".to_owned()]);
        assert!(shown.starts_with("ärger") && shown.ends_with("übel"), "{shown}");
        assert!(shown.contains("größe"), "{shown}");
        assert_eq!(excerpt("short", &["none".to_owned()]), "short");
    }
}
