//! What `dueq top` shows, and what its keys do to it.

use super::{
    super::{
        durations::rough,
        table::{clean, list},
    },
    poll::Row,
};
use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
use std::cmp::Reverse;

/// The lines that are no topics: two above, one below.
const FRAME: usize = 4;

/// What is shown.
#[derive(Debug, Default)]
pub struct View {
    /// The topics.
    pub rows: Vec<Row>,
    /// Whether the user has stopped the refreshes.
    pub is_stopped: bool,
    /// Why the last refresh failed.
    pub trouble: String,
    order: usize,
    /// The first topic on the screen, and how many there is room for.
    first: usize,
    room: usize,
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Quit,
    Stop,
    NextOrder,
    PreviousOrder,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

impl Key {
    /// The keys in what a terminal sent. What is no key is left out.
    pub fn all(mut bytes: &[u8]) -> Vec<Self> {
        let mut keys = Vec::new();
        while !bytes.is_empty() {
            let (key, length) = match bytes {
                [b'\x1b', b'[' | b'O', rest @ ..] => {
                    // A sequence ends with a letter or ~.
                    let ends = |byte: &u8| matches!(byte, b'@'..=b'~');
                    let length = rest.iter().position(ends).map_or(rest.len(), |at| at + 1);
                    let key = match &rest[..length] {
                        b"A" => Some(Self::Up),
                        b"B" => Some(Self::Down),
                        b"C" => Some(Self::NextOrder),
                        b"D" => Some(Self::PreviousOrder),
                        b"5~" => Some(Self::PageUp),
                        b"6~" => Some(Self::PageDown),
                        b"H" | b"1~" => Some(Self::Home),
                        b"F" | b"4~" => Some(Self::End),
                        _ => None,
                    };
                    (key, 2 + length)
                }
                [byte, ..] => {
                    let key = match byte {
                        b'q' | b'Q' | 3 => Some(Self::Quit),
                        b'p' | b' ' => Some(Self::Stop),
                        b's' => Some(Self::NextOrder),
                        b'k' => Some(Self::Up),
                        b'j' => Some(Self::Down),
                        _ => None,
                    };
                    (key, 1)
                }
                [] => break,
            };
            keys.extend(key);
            bytes = &bytes[length..];
        }
        keys
    }
}

/// A column: its heading, how large what is in it is, where that is known, and how it is written.
struct Column {
    name: &'static str,
    size: fn(&Row) -> Option<f64>,
    write: fn(f64) -> String,
}

impl Column {
    fn cell(&self, row: &Row) -> String {
        (self.size)(row).map_or("-".to_owned(), self.write)
    }
}

const COLUMNS: [Column; 8] = [
    Column { name: "ready", size: |row| Some(row.counts[0] as f64), write: whole },
    Column { name: "delayed", size: |row| Some(row.counts[1] as f64), write: whole },
    Column { name: "leased", size: |row| Some(row.counts[2] as f64), write: whole },
    Column { name: "dead", size: |row| Some(row.counts[3] as f64), write: whole },
    Column { name: "published/s", size: |row| Some(row.recent?.published_per_s), write: rate },
    Column { name: "acked/s", size: |row| Some(row.recent?.acked_per_s), write: rate },
    Column { name: "oldest", size: |row| Some(row.recent?.oldest_ms? as f64), write: time },
    Column { name: "late p99", size: |row| Some(row.recent?.late_p99_ms? as f64), write: time },
];

fn whole(count: f64) -> String {
    format!("{count:.0}")
}

fn rate(per_s: f64) -> String {
    if per_s >= 100.0 { format!("{per_s:.0}") } else { format!("{per_s:.1}") }
}

fn time(millis: f64) -> String {
    rough(millis as i64)
}

impl View {
    /// The names of the orders: by activity, by name, by each column.
    fn order_name(&self) -> &'static str {
        match self.order {
            0 => "activity",
            1 => "name",
            at => COLUMNS[at - 2].name,
        }
    }

    fn sort(&mut self) {
        let order = self.order;
        let by = |row: &Row| match order {
            // To the tenth that is shown: less is no reason to change places.
            0 => row.recent.map_or(0.0, |recent| {
                ((recent.published_per_s + recent.acked_per_s) * 10.0).round()
            }),
            1 => 0.0,
            at => (COLUMNS[at - 2].size)(row).unwrap_or(-1.0),
        };
        let activity =
            |row: &Row| Reverse(if order == 0 { row.counts[0] + row.counts[2] } else { 0 });
        self.rows.sort_by(|a, b| {
            let names = || a.name.cmp(&b.name);
            by(b).total_cmp(&by(a)).then(activity(a).cmp(&activity(b))).then_with(names)
        });
    }

    /// All topics as a table.
    pub fn table(&mut self) -> String {
        self.sort();
        let row = |row: &Row| {
            let mut cells = vec![row.name.clone()];
            cells.extend(COLUMNS.iter().map(|column| column.cell(row)));
            cells.push(if row.is_paused { "paused" } else { "" }.to_owned());
            cells
        };
        let names = COLUMNS.map(|column| column.name);
        let head = [&["topic"][..], &names, &[""]].concat();
        list("topics", &head, &names, &self.rows, row)
    }

    /// The topics that are on the screen.
    pub fn visible(&self) -> Vec<String> {
        let rows = self.rows.iter().skip(self.first).take(self.room);
        rows.map(|row| row.name.clone()).collect()
    }

    /// The lines of a screen of this size.
    pub fn frame(&mut self, server: &str, (width, height): (usize, usize)) -> Vec<String> {
        self.room = height.saturating_sub(FRAME).max(1);
        self.first = self.first.min(self.rows.len().saturating_sub(self.room));
        let table = self.table();
        let mut table = table.lines();
        let sum = |at: usize| self.rows.iter().map(|row| row.counts[at]).sum::<i64>();
        let about = format!(
            "dueq top  {server}  {} topic{}, {} ready, {} delayed, {} leased, {} dead  by {}{}",
            self.rows.len(),
            if self.rows.len() == 1 { "" } else { "s" },
            sum(0),
            sum(1),
            sum(2),
            sum(3),
            self.order_name(),
            if self.is_stopped { "  (stopped)" } else { "" },
        );
        let mut lines = vec![clean(&about), String::new()];
        lines.extend(table.next().map(str::to_owned));
        lines.extend(table.skip(self.first).take(self.room).map(str::to_owned));
        lines.resize(height.saturating_sub(1).max(1), String::new());
        let (style, last) = match &*self.trouble {
            "" => (Style::new().dimmed(), "q quit  p stop  s order  ↑↓ scroll".to_owned()),
            trouble => (AnsiColor::Red.on_default(), clean(trouble)),
        };
        let last: String = last.chars().take(width).collect();
        lines.push(format!("{style}{last}{style:#}"));
        lines.truncate(height);
        lines.into_iter().map(|line| cut(line, width)).collect()
    }

    /// Does what a key says.
    pub fn press(&mut self, key: Key) {
        let orders = COLUMNS.len() + 2;
        let last = self.rows.len().saturating_sub(self.room);
        match key {
            Key::Quit => {}
            Key::Stop => self.is_stopped = !self.is_stopped,
            Key::NextOrder => self.order = (self.order + 1) % orders,
            Key::PreviousOrder => self.order = (self.order + orders - 1) % orders,
            Key::Up => self.first = self.first.saturating_sub(1),
            Key::Down => self.first = (self.first + 1).min(last),
            Key::PageUp => self.first = self.first.saturating_sub(self.room),
            Key::PageDown => self.first = (self.first + self.room).min(last),
            Key::Home => self.first = 0,
            Key::End => self.first = last,
        }
    }
}

/// A line that is not wider than the screen. One that is cut loses its colours.
fn cut(line: String, width: usize) -> String {
    let plain = strip_str(&line).to_string();
    if plain.chars().count() <= width { line } else { plain.chars().take(width).collect() }
}

#[cfg(test)]
mod tests {
    use super::{super::poll::Recent, *};

    fn view() -> View {
        let row = |name: &str, ready, published_per_s| Row {
            name: name.to_owned(),
            counts: [ready, 0, 0, 0],
            recent: Some(Recent { published_per_s, ..Recent::default() }),
            ..Row::default()
        };
        View { rows: vec![row("a", 1, 0.0), row("b", 2, 9.5), row("c", 3, 0.0)], ..View::default() }
    }

    fn names(view: &mut View, size: (usize, usize)) -> Vec<String> {
        let lines = view.frame("http://x", size);
        assert!(lines.len() <= size.1, "{lines:?}");
        let wide = |line: &String| strip_str(line).to_string().chars().count() > size.0;
        assert!(!lines.iter().any(wide), "{lines:?}");
        let rows = lines.iter().skip(3).map(|line| line.split(' ').next().unwrap().to_owned());
        rows.take_while(|name| name.len() == 1).collect()
    }

    #[test]
    fn the_busiest_topics_come_first_and_s_changes_the_order() {
        let mut view = view();
        assert_eq!(names(&mut view, (100, 24)), ["b", "c", "a"]);
        view.press(Key::NextOrder);
        assert_eq!(names(&mut view, (100, 24)), ["a", "b", "c"]);
        view.press(Key::NextOrder);
        assert_eq!(names(&mut view, (100, 24)), ["c", "b", "a"]);
        view.press(Key::PreviousOrder);
        view.press(Key::PreviousOrder);
        assert_eq!(view.order_name(), "activity");
    }

    #[test]
    fn what_does_not_fit_is_scrolled() {
        let mut view = view();
        view.press(Key::NextOrder);
        assert_eq!(names(&mut view, (100, 6)), ["a", "b"]);
        view.press(Key::End);
        assert_eq!(names(&mut view, (100, 6)), ["b", "c"]);
        view.press(Key::Down);
        assert_eq!(view.visible(), ["b", "c"]);
        view.press(Key::Up);
        assert_eq!(names(&mut view, (100, 6)), ["a", "b"]);
        // A window that has become larger shows all again, and a tiny one does no harm.
        view.press(Key::End);
        assert_eq!(names(&mut view, (100, 24)), ["a", "b", "c"]);
        for size in [(1, 1), (2, 3), (10, 4)] {
            view.frame("http://x", size);
        }
    }

    #[test]
    fn keys_are_read_from_what_terminals_send() {
        let keys = Key::all(b"qp\x1b[A\x1bOB\x1b[5~\x1b[1;5Cs\x03\x1b");
        let wanted =
            [Key::Quit, Key::Stop, Key::Up, Key::Down, Key::PageUp, Key::NextOrder, Key::Quit];
        assert_eq!(keys, wanted);
    }

    #[test]
    fn trouble_is_shown_without_what_a_terminal_would_act_on() {
        let mut view = view();
        view.trouble = "no\u{1b}[2J".to_owned();
        let lines = view.frame("http://x", (80, 10));
        assert!(lines[9].contains("no\\u{1b}[2J"), "{lines:?}");
    }
}
