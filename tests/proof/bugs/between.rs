//! The bugs that a proxy between dueq and Redis causes: what dueq would have to notice in an answer, or would have to ask, is
//! not in it.

use crate::proof::proxy::Mode;

/// One epoch for ever, whichever server answers.
const ONE_EPOCH: (&str, &str) =
    ("master_replid:", "master_replid:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");

/// What the proxy of a scenario does where this bug is on.
pub fn mode(bug: Option<&str>) -> Mode {
    match bug {
        Some("closed connections look open") => Mode::KeepOpen,
        Some("lanes stay at a replica") => Mode::Overwrite(&[
            ("role:slave", "role:other"),
            ("$5\r\nslave", "$5\r\nother"),
            ("READONLY", "TRYAGAIN"),
            ONE_EPOCH,
        ]),
        Some("fence without its epoch") => Mode::Overwrite(&[ONE_EPOCH]),
        // The answer to WAIT, before that to INFO.
        Some("unconfirmed counts") => Mode::Overwrite(&[(":0\r\n$", ":1\r\n$")]),
        Some("wake-ups not restored") => {
            Mode::Overwrite(&[("SUBSCRIBE\r\n$9\r\ndueq:wake", "SUBSCRIBE\r\n$9\r\ndueq:deaf")])
        }
        _ => Mode::Pass,
    }
}
