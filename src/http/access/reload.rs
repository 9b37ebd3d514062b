//! The key file while dueq serves: it is read again when it has changed and on SIGHUP. A file that cannot be used leaves the
//! keys as they were. A file that may be half written counts once it has stayed the same for longer than a second.

use super::{AccessError, key_file::KeyFile, keys::Keys};
use dueq_base::{files::Content, reload::Watched};
use std::{
    future::pending,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

/// Keeps the keys as their file says, if it can be read more than once. Does not end.
pub(super) async fn follow(keys: Arc<Keys>, path: PathBuf) {
    if !keys.is_regular {
        tracing::info!("{} is not a regular file: it is not read again", path.display());
        return pending().await;
    }
    let watched = Watched::new("the API keys", vec![path.clone()]);
    let (reader, file) = (keys.clone(), path.clone());
    let read = move |is_settled| {
        let found = read(&reader, &file, is_settled);
        reader.is_behind.store(found.is_err(), Ordering::Relaxed);
        found
    };
    let take = move |(file, begun): (KeyFile, Instant)| {
        let count = file.entries.len();
        if keys.take(file) {
            let ms = begun.elapsed().as_millis() as u64;
            tracing::info!(count, ms, "the API keys in {} are in force", path.display());
            if count == 0 {
                tracing::error!("no API key in {}: every request is refused", path.display());
            }
        }
    };
    watched.follow_settled(read, take).await;
}

/// What the file says, and when it was read; `None` if it may be half written: a file may be seen when it was cut off to be
/// written again, and a line while it is written.
fn read(
    keys: &Keys,
    path: &Path,
    is_settled: bool,
) -> Result<Option<(KeyFile, Instant)>, AccessError> {
    let begun = Instant::now();
    let content = Content::read_again(path).map_err(AccessError::File)?;
    let parsed = keys.parse(path, &content.bytes);
    let is_empty = parsed.as_ref().is_ok_and(|file| file.entries.is_empty());
    if !is_settled && (is_empty || !content.bytes.ends_with(b"\n")) {
        return Ok(None);
    }
    parsed.map(|file| Some((file, begun)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::keys::digest;
    use std::fs;

    const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_line_is_a_key_once_it_ends_or_has_stayed_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let whole = format!("first sha256:{HASH} read:*\n");
        fs::write(&path, &whole).unwrap();
        let keys = Keys::read(&[], Some(&path)).unwrap().unwrap();
        let torn = "the-billing-of-orders";
        let found = |text: &str, is_settled| {
            fs::write(&path, text).unwrap();
            let found = read(&keys, &path, is_settled).map_err(|error| error.to_string())?;
            let has =
                |file: KeyFile| file.entries.iter().any(|it| it.digest == digest(torn.as_bytes()));
            Ok::<_, String>(found.map(|(file, _)| has(file)))
        };
        // What is left of a line with this name looks like a key that may do everything.
        assert_eq!(found(&format!("{whole}{torn}"), false), Ok(None));
        let named = format!("{whole}{torn} sha256:{} read:*\n", HASH.replace('0', "1"));
        assert_eq!(found(&named, false), Ok(Some(false)));
        // Without its break it never is one; next to keys without names it is, after a while.
        assert!(found(&format!("{whole}{torn}"), true).is_err());
        assert_eq!((found(torn, false), found(torn, true)), (Ok(None), Ok(Some(true))));
        assert_eq!((found("", false), found("", true)), (Ok(None), Ok(Some(false))));
        fs::remove_file(&path).unwrap();
        assert!(read(&keys, &path, false).is_err());
    }
}
