//! `dueq top`: all topics at a glance, refreshed while one looks. One loop asks the server, another one draws and reads keys,
//! so that no slow answer holds up a key. Where standard output is no terminal, it prints one table.

mod poll;
mod screen;
mod view;

use super::{context::Context, failure::Failure};
use poll::Poll;
use screen::Screen;
use std::{cell::RefCell, env, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{Instant, sleep},
};
use view::{Key, View};

/// The interval of the refreshes, at least.
const INTERVAL: Duration = Duration::from_secs(2);

/// Watches the topics whose names start with the prefix. `once`: prints one table and ends.
pub async fn run(cx: &mut Context<'_>, prefix: Option<&str>, once: bool) -> Result<(), Failure> {
    let filter: Vec<_> = prefix.iter().map(|prefix| ("prefix", *prefix)).collect();
    let mut poll = Poll::new(cx.client, &filter);
    let mut view = View::default();
    // The first answer decides whether there is anything to show, and an error is shown on a screen that stays.
    view.rows = poll.next(&[]).await?;
    if once || !cx.is_terminal || env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return cx.say(&view.table());
    }
    let view = RefCell::new(view);
    let (news, heard) = mpsc::unbounded_channel();
    tokio::select! {
        () = watch(poll, &view, &news) => Ok(()),
        end = show(cx, &view, heard) => end,
    }
}

/// Asks again and again. The sender says when there is something new.
async fn watch(mut poll: Poll<'_>, view: &RefCell<View>, news: &mpsc::UnboundedSender<()>) {
    let mut pause = INTERVAL;
    loop {
        sleep(pause).await;
        let (is_stopped, visible) = (view.borrow().is_stopped, view.borrow().visible());
        if is_stopped {
            continue;
        }
        let began = Instant::now();
        let answer = poll.next(&visible).await;
        // A server that is slow to answer is asked less often.
        pause = INTERVAL.max(4 * began.elapsed());
        let mut view = view.borrow_mut();
        match answer {
            Ok(rows) => {
                view.rows = rows;
                view.trouble = String::new();
            }
            Err(failure) => view.trouble = failure.message(),
        }
        let _ = news.send(());
    }
}

/// Draws after each key, each change of size and each answer, until the user has seen enough.
async fn show(
    cx: &mut Context<'_>,
    view: &RefCell<View>,
    mut heard: mpsc::UnboundedReceiver<()>,
) -> Result<(), Failure> {
    let [mut resized, mut interrupted, mut terminated, mut hung_up] = [
        signal(SignalKind::window_change())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    ];
    let mut screen = Screen::open(cx.writer)?;
    loop {
        let size = screen.size();
        screen.draw(&view.borrow_mut().frame(&cx.client.server, size))?;
        tokio::select! {
            Some(bytes) = screen.keys.recv() => {
                for key in Key::all(&bytes) {
                    if key == Key::Quit {
                        return Ok(());
                    }
                    view.borrow_mut().press(key);
                }
            }
            Some(()) = heard.recv() => {}
            _ = resized.recv() => {}
            _ = interrupted.recv() => return Ok(()),
            _ = terminated.recv() => return Ok(()),
            _ = hung_up.recv() => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked_in_turn, ok, unparsed};

    #[tokio::test]
    async fn one_table_is_printed_where_there_is_no_terminal() {
        let counts = r#"{"ready":3,"delayed":1,"leased":2,"dead":0,"blocked":1}"#;
        let point = r#"{"at":"2026-11-20T00:00:00Z","published":30,"acked":10,"oldest_ready_age_ms":1500,"lateness_p99_ms":40}"#;
        let answers = [
            ok(&format!(r#"{{"items":[{{"name":"a","paused":true,"counts":{counts}}}]}}"#)),
            ok(&format!(r#"{{"step_ms":10000,"points":[{point},{point}]}}"#)),
        ];
        let sent = asked_in_turn(&["top", "--once", "--prefix", "a b"], &answers).await;
        assert_eq!(sent[0].head, "GET /topics?limit=1000&prefix=a+b");
        assert_eq!(sent[1].head, "GET /topics/a/history?step_ms=10000&points=2");
        assert_eq!(
            sent[1].shown,
            "TOPIC  READY  DELAYED  LEASED  DEAD  PUBLISHED/S  ACKED/S  OLDEST  LATE P99\n\
             a          3        2       2     0          3.0      1.0      1s      40ms  paused\n"
        );
        assert!(unparsed(&["top", "a"]) && unparsed(&["top", "--twice"]));
    }
}
