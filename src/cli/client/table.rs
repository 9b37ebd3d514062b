//! Aligned text. Control characters are escaped, so that no payload can send commands to the terminal.

/// Formats names and values as two columns. Rows without a value are left out.
pub fn fields(rows: impl IntoIterator<Item = (String, String)>) -> String {
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| vec![name, value])
        .collect();
    align(&rows, &[])
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
    let numbers: Vec<bool> = kept.map(|(name, _)| right.contains(name)).collect();
    align(&all, &numbers)
}

/// Escapes control characters. Line breaks and tabs, which JSON has between tokens, become spaces.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => clean.push(' '),
            c if c.is_control() => clean.extend(c.escape_unicode()),
            c => clean.push(c),
        }
    }
    clean
}

fn align(rows: &[Vec<String>], right: &[bool]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line.push_str(&if right.get(column) == Some(&true) {
                format!("{cell:>width$}  ")
            } else {
                format!("{cell:<width$}  ")
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

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![vec!["orders".into(), "7".into()], vec!["ä".into(), "12000".into()]];
        let table = columns(&["name", "ready"], &["ready"], rows);
        assert_eq!(table, "NAME    READY\norders      7\nä       12000\n");
    }

    #[test]
    fn empty_columns_are_left_out() {
        let rows = vec![vec!["a".into(), String::new(), "1".into()]];
        assert_eq!(
            columns(&["name", "key", "ready"], &["ready"], rows),
            "NAME  READY\na         1\n"
        );
    }

    #[test]
    fn fields_without_a_value_are_left_out() {
        let text = fields([("id", "1"), ("key", ""), ("state", "ready")].map(owned));
        assert_eq!(text, "id     1\nstate  ready\n");
    }

    #[test]
    fn control_characters_are_escaped() {
        let text = fields([("payload", "\u{1b}[2J\n\u{9b}31m\u{7f}")].map(owned));
        assert_eq!(text, "payload  \\u{1b}[2J \\u{9b}31m\\u{7f}\n");
    }
}
