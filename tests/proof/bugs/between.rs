//! The bugs that a proxy between dueq and Redis causes: what dueq would have to notice in an answer, or would have to ask, is
//! not in it.

use crate::proof::proxy::Mode;

/// What the proxy of a scenario does where this bug is on. The replication ID is that of the first primary, whose epoch goes
/// on for ever.
pub fn mode(bug: Option<&str>, replication_id: &str) -> Mode {
    let one_epoch = ("master_replid:".to_owned(), format!("master_replid:{replication_id}"));
    let texts: Vec<(String, String)> = match bug {
        Some("closed connections look open") => return Mode::KeepOpen,
        Some("lanes stay at a replica") => {
            let mut texts = pairs(&[
                ("role:slave", "role:other"),
                ("$5\r\nslave", "$5\r\nother"),
                ("READONLY", "TRYAGAIN"),
            ]);
            texts.push(one_epoch);
            texts
        }
        Some("fence without its epoch") => vec![one_epoch],
        // The answer to WAIT, before that to INFO.
        Some("unconfirmed counts") => pairs(&[(":0\r\n$", ":1\r\n$")]),
        Some("wake-ups not restored") => {
            let deaf = [("SUBSCRIBE\r\n$9\r\ndueq:wake", "SUBSCRIBE\r\n$9\r\ndueq:deaf")];
            return Mode::OverwriteRequests(pairs(&deaf).leak());
        }
        _ => return Mode::Pass,
    };
    // Leaks once per scenario.
    Mode::Overwrite(texts.leak())
}

fn pairs(texts: &[(&str, &str)]) -> Vec<(String, String)> {
    texts.iter().map(|(find, put)| ((*find).to_owned(), (*put).to_owned())).collect()
}
