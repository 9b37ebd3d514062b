//! What a command works with: the server, and where the answers are printed, as a table or as they came.

use super::{
    api::{Answer, Client, Page},
    failure::Failure,
    object::Object,
    table,
};
use crate::cli::progress::Progress;
use anstream::{AutoStream, ColorChoice, adapter::strip_str};
use serde_json::value::RawValue;
use std::io::{self, IsTerminal as _, Write};

/// The server of a command, and its output.
pub struct Context<'a> {
    pub client: &'a Client,
    pub writer: &'a mut dyn Write,
    /// Print answers as they came; of a list, one item per line.
    pub json: bool,
    /// Answers that are printed as they came do not command the terminal either.
    pub is_terminal: bool,
}

impl<'a> Context<'a> {
    pub fn new(client: &'a Client, writer: &'a mut dyn Write, json: bool) -> Self {
        Self { client, writer, json, is_terminal: io::stdout().is_terminal() }
    }

    /// Shows the progress of a command that takes long, unless it prints for scripts.
    pub fn progress(&self, what: &str) -> Progress {
        if self.json { Progress::hidden() } else { Progress::new(what, None) }
    }

    /// Prints an answer: as it came, or as `view` formats it.
    pub fn show(
        &mut self,
        answer: &Answer,
        view: impl FnOnce(&Object) -> String,
    ) -> Result<(), Failure> {
        if self.json { self.as_it_came(answer) } else { self.say(&view(&answer.object()?)) }
    }

    /// Prints a whole list. With `--json` each item is a line; otherwise `view` formats all items together.
    pub async fn list(
        &mut self,
        path: &str,
        view: impl FnOnce(&[Object]) -> String,
    ) -> Result<(), Failure> {
        let (mut items, mut cursor) = (Vec::new(), None);
        loop {
            cursor = self.page(path, &[], usize::MAX, cursor, &mut items).await?.next;
            if cursor.is_none() {
                return if self.json { Ok(()) } else { self.say(&view(&items)) };
            }
        }
    }

    /// Reads a page of a list, of up to `limit` items. Prints each as a line with `--json`; otherwise adds it to `items`.
    pub async fn page(
        &mut self,
        path: &str,
        filter: &[(&str, &str)],
        limit: usize,
        cursor: Option<String>,
        items: &mut Vec<Object>,
    ) -> Result<Page, Failure> {
        let page = self.client.page(path, filter, limit, cursor).await?;
        if self.json {
            // Line breaks in JSON are only between tokens.
            let line = |item: &RawValue| item.get().replace(['\r', '\n'], " ") + "\n";
            self.print(page.items.iter().map(|item| line(item)).collect::<String>().as_bytes())?;
        } else {
            items.extend(page.objects());
        }
        Ok(page)
    }

    /// Prints the body as it came; what did not end in a newline gets one. Prints nothing if there is no body.
    pub fn as_it_came(&mut self, answer: &Answer) -> Result<(), Failure> {
        if answer.body.is_empty() {
            return Ok(());
        }
        self.print(&answer.body)?;
        self.print(if answer.body.ends_with(b"\n") { b"" } else { b"\n" })
    }

    /// Prints JSON.
    pub fn print(&mut self, json: &[u8]) -> Result<(), Failure> {
        match self.is_terminal {
            true => {
                let json = table::clean_json(&String::from_utf8_lossy(json));
                self.writer.write_all(json.as_bytes())?;
            }
            false => self.writer.write_all(json)?,
        }
        Ok(self.writer.flush()?)
    }

    /// Prints text, which brings its own newline, and flushes. Its colours are left out if they are not wanted.
    pub fn say(&mut self, text: &str) -> Result<(), Failure> {
        match AutoStream::choice(&io::stdout()) {
            ColorChoice::Never => write!(self.writer, "{}", strip_str(text))?,
            _ => self.writer.write_all(text.as_bytes())?,
        }
        Ok(self.writer.flush()?)
    }
}
