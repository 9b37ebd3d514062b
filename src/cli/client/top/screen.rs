//! The terminal while `dueq top` has it: another screen than the shell's, and each key as it is pressed. Drop gives it back
//! as it was, whatever ended the command.

use super::super::failure::Failure;
use anstream::{AutoStream, ColorChoice, adapter::strip_str};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::{
    io::{self, Read as _, Write},
    thread,
};
use tokio::sync::mpsc;

/// The other screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The terminal.
pub struct Screen<'a> {
    writer: &'a mut dyn Write,
    /// How it was. `None`: standard input is no terminal.
    before: Option<Termios>,
    /// What is typed.
    pub keys: mpsc::UnboundedReceiver<Vec<u8>>,
}

impl<'a> Screen<'a> {
    /// Takes the terminal.
    pub fn open(writer: &'a mut dyn Write) -> Result<Self, Failure> {
        let before = tcgetattr(io::stdin()).ok();
        let (typed, keys) = mpsc::unbounded_channel();
        let screen = Self { writer, before, keys };
        if let Some(mut raw) = screen.before.clone() {
            raw.make_raw();
            tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(io::Error::from)?;
            // It ends with the process: nothing else can end a read of a terminal everywhere.
            thread::spawn(move || {
                let mut bytes = [0; 256];
                while let Ok(count @ 1..) = io::stdin().lock().read(&mut bytes) {
                    if typed.send(bytes[..count].to_vec()).is_err() {
                        break;
                    }
                }
            });
        }
        screen.writer.write_all(ENTER.as_bytes())?;
        Ok(screen)
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => (80, 24),
        }
    }

    /// Replaces what is shown by these lines.
    pub fn draw(&mut self, lines: &[String]) -> Result<(), Failure> {
        let colourless = AutoStream::choice(&io::stdout()) == ColorChoice::Never;
        let line = |line: &String| match colourless {
            true => strip_str(line).to_string(),
            false => line.clone(),
        };
        // Each line clears what is right of it, and the last one what is below: so nothing flickers.
        let lines: Vec<_> = lines.iter().map(line).collect();
        let text = format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"));
        self.writer.write_all(text.as_bytes())?;
        Ok(self.writer.flush()?)
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        let _ = self.writer.write_all(LEAVE.as_bytes());
        let _ = self.writer.flush();
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
