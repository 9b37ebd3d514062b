//! Aligned text. Control characters are escaped, so that no payload can send commands to the terminal. Colours are always
//! written; what prints the text removes them where they are not wanted.

use anstyle::{AnsiColor, Style};

/// Formats names and values as two columns. Rows without a value are left out.
pub fn fields(rows: impl IntoIterator<Item = (String, String)>) -> String {
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| vec![name, value])
        .collect();
    align(&rows, &[], |row, column| match column {
        0 => Style::new().dimmed(),
        _ => colour(&rows[row][0], &rows[row][1]),
    })
}

/// Formats a list as a table, a row for each item, or says that there are none of `what`.
pub fn list<T>(
    what: &str,
    head: &[&str],
    right: &[&str],
    items: &[T],
    row: impl Fn(&T) -> Vec<String>,
) -> String {
    match items {
        [] => format!("no {what}\n"),
        items => columns(head, right, items.iter().map(row).collect()),
    }
}

/// Formats a table with a header; the columns named in `right` are aligned to the right. Columns that are empty in every
/// row are left out.
pub fn columns(head: &[&str], right: &[&str], rows: Vec<Vec<String>>) -> String {
    let filled = |column: usize| rows.iter().any(|row| !row[column].is_empty());
    let filled: Vec<bool> = (0..head.len()).map(filled).collect();
    let mut all = vec![head.iter().map(|name| name.to_uppercase()).collect::<Vec<_>>()];
    all.extend(rows);
    for row in &mut all {
        let mut keep = filled.iter();
        row.retain(|_| keep.next() == Some(&true));
    }
    let kept = head.iter().zip(&filled).filter(|(_, filled)| **filled);
    let kept: Vec<&str> = kept.map(|(name, _)| *name).collect();
    let numbers: Vec<bool> = kept.iter().map(|name| right.contains(name)).collect();
    align(&all, &numbers, |row, column| match row {
        0 => Style::new().bold(),
        _ => colour(kept[column], &all[row][column]),
    })
}

/// The colour of a value. It repeats what the value says, for the eye only.
pub fn colour(name: &str, value: &str) -> Style {
    let colour = match (name, value) {
        ("dead", "" | "0") => return Style::new(),
        ("state", "dead") | ("dead", _) => AnsiColor::Red,
        ("state", "leased") | (_, "paused") | ("paused", "yes") => AnsiColor::Yellow,
        ("state", "ready") => AnsiColor::Green,
        ("state", "delayed" | "blocked") => AnsiColor::Cyan,
        ("signature", "valid") => AnsiColor::Green,
        ("signature", "not checked: there is no secret") => AnsiColor::Yellow,
        ("signature", _) => AnsiColor::Red,
        _ => return Style::new(),
    };
    colour.on_default()
}

/// Escapes control characters, and those that reverse the direction of text or hide in it. Line breaks and tabs, which JSON
/// has between tokens, become spaces.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => clean.push(' '),
            c if is_unsafe(c) => clean.extend(c.escape_unicode()),
            c => clean.push(c),
        }
    }
    clean
}

/// Whether a character can change how the text around it is shown.
fn is_unsafe(c: char) -> bool {
    let hides =
        matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || hides || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

/// Escapes the same in JSON, where it stays the same value. What is no JSON and comes in its place is escaped, too.
pub fn clean_json(json: &str) -> String {
    let mut clean = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\t' => clean.push(c),
            '\r' => clean.push(' '),
            c if is_unsafe(c) => {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units).iter();
                clean.extend(units.map(|unit| format!("\\u{unit:04x}")));
            }
            c => clean.push(c),
        }
    }
    clean
}

/// Cuts text to so many characters.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A word as a shell reads it. A terminal must not be given what it would act on, so this has its own way to write it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    if clean(word) != word {
        let escaped = word.chars().map(|c| match c {
            '\'' | '\\' => format!("\\{c}"),
            ' '..='~' => c.to_string(),
            c if u32::from(c) < 0x80 => format!("\\x{:02x}", u32::from(c)),
            c => format!("\\U{:08x}", u32::from(c)),
        });
        return format!("$'{}'", escaped.collect::<String>());
    }
    match word.chars().all(plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn align(rows: &[Vec<String>], right: &[bool], style: impl Fn(usize, usize) -> Style) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let style = style(number, column);
            let space = " ".repeat(widths[column] - cell.chars().count());
            let text =
                if cell.is_empty() { String::new() } else { format!("{style}{cell}{style:#}") };
            line.push_str(&match right.get(column) {
                Some(true) => format!("{space}{text}  "),
                _ => format!("{text}{space}  "),
            });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned((name, value): (&str, &str)) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![vec!["orders".into(), "7".into()], vec!["ä".into(), "12000".into()]];
        let table = columns(&["name", "ready"], &["ready"], rows);
        assert_eq!(plain(&table), "NAME    READY\norders      7\nä       12000\n");
    }

    #[test]
    fn empty_columns_are_left_out() {
        let rows = vec![vec!["a".into(), String::new(), "1".into()]];
        assert_eq!(
            plain(&columns(&["name", "key", "ready"], &["ready"], rows)),
            "NAME  READY\na         1\n"
        );
    }

    #[test]
    fn fields_without_a_value_are_left_out() {
        let text = fields([("id", "1"), ("key", ""), ("state", "ready")].map(owned));
        assert_eq!(plain(&text), "id     1\nstate  ready\n");
    }

    #[test]
    fn control_characters_are_escaped() {
        let text = fields([("payload", "\u{1b}[2J\n\u{9b}31m\u{7f}")].map(owned));
        assert_eq!(plain(&text), "payload  \\u{1b}[2J \\u{9b}31m\\u{7f}\n");
    }

    #[test]
    fn text_that_turns_its_direction_is_escaped() {
        assert_eq!(
            clean("a\u{202e}b\u{2066}\u{200b}\u{feff}ä"),
            "a\\u{202e}b\\u{2066}\\u{200b}\\u{feff}ä"
        );
        let json = "{\"a\":\n\"\u{9b}31m\u{7f}\u{e0041}ä\"}";
        let escaped = "{\"a\":\n\"\\u009b31m\\u007f\\udb40\\udc41ä\"}";
        assert_eq!(clean_json(json), escaped);
        assert_eq!(clean_json("<html>\u{1b}[2J"), "<html>\\u001b[2J");
    }

    #[test]
    fn states_have_colours_and_zeros_have_none() {
        let rows = vec![vec!["dead".into(), "0".into()], vec!["acked".into(), "3".into()]];
        let table = columns(&["state", "dead"], &["dead"], rows);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[1], "\u{1b}[31mdead\u{1b}[0m      0");
        assert_eq!(lines[2], "acked     \u{1b}[31m3\u{1b}[0m");
    }
}
