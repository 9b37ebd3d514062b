//! What dueq writes is its user's alone: messages are in it, and secrets.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use serde_json::json;

use crate::harness::*;
use crate::refusals::one_line;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// `dueq serve` in this directory, run to its end.
async fn refused(data: &Path) -> Finished {
    Dueq::embedded(data).args(["--listen", "127.0.0.1:0"]).finish().await
}

#[tokio::test]
async fn a_data_directory_that_others_could_enter_is_closed_and_so_is_all_in_it() {
    for wide in [0o755, 0o750, 0o777] {
        let data = temp_dir("data");
        set_mode(&data, wide);
        let dueq = Dueq::embedded(&data).start().await;
        dueq.client().published(&topic("private"), json!({"payload": "secret"})).await;
        assert_eq!(mode(&data), 0o700, "{wide:o}");
        for entry in fs::read_dir(&data).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path) & 0o077, 0, "{} of {wide:o}", path.display());
        }
        for entry in fs::read_dir(data.join("appendonlydir")).into_iter().flatten() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path) & 0o077, 0, "{} of {wide:o}", path.display());
        }
    }
}

#[tokio::test]
async fn a_directory_for_everybody_is_no_data_directory() {
    let data = temp_dir("data");
    set_mode(&data, 0o1777);
    one_line(&refused(&data).await, &[&data.display().to_string(), "1777", "--data-dir"]);
    assert_eq!(mode(&data), 0o1777);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "nothing was written");
}

#[tokio::test]
async fn an_open_directory_of_another_user_is_refused() {
    let data = temp_dir("data");
    // Only root can give it away.
    if fs::metadata(&data).unwrap().uid() != 0 || chown(&data, Some(12_345), None).is_err() {
        return;
    }
    set_mode(&data, 0o755);
    one_line(&refused(&data).await, &[&data.display().to_string(), "another user"]);
    assert_eq!(mode(&data), 0o755);
    set_mode(&data, 0o700);
    Dueq::embedded(&data).start().await;
}

#[tokio::test]
async fn the_address_file_is_written_over_links_and_not_through_them() {
    let dir = temp_dir("addr");
    let victim = dir.join("victim");
    fs::write(&victim, "precious").unwrap();
    for name in ["addr", "addr.partial", "other.partial"] {
        symlink(&victim, dir.join(name)).unwrap();
    }
    for name in ["addr", "other"] {
        let file = dir.join(name);
        let launch = Dueq::on(&shared().await.redis).args(["--listen", "127.0.0.1:0"]);
        let _dueq = launch.args(["--addr-file"]).args([&file]).spawn();
        eventually("the address", || async {
            text_of(&file).starts_with("127.0.0.1:").then_some(())
        })
        .await;
        assert!(!fs::symlink_metadata(&file).unwrap().is_symlink());
        assert_eq!(text_of(&victim), "precious");
        assert_eq!(mode(&file), 0o600);
        let left = fs::read_dir(&dir).unwrap().map(|it| it.unwrap().file_name());
        assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with(".dueq-")));
    }
}

#[tokio::test]
async fn a_dump_and_a_map_are_written_over_what_others_prepared_and_for_their_owner_alone() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    dueq.client().published("prepared", serde_json::json!({"payload": "secret"})).await;
    let dir = temp_dir("prepared");
    let victim = dir.join("victim");
    fs::write(&victim, "precious").unwrap();
    for name in ["dump", "dump.partial", "map", "map.partial"] {
        symlink(&victim, dir.join(name)).unwrap();
    }
    let (dump, map) = (dir.join("dump"), dir.join("map"));
    let url = redis.url();
    let dumped = Launch::command(["dump", "--redis-url", &url, "-o"]).args([&dump]).finish().await;
    assert_eq!(dumped.code, 0, "{dumped:?}");
    let other = Redis::start().await;
    let load = ["load", "--redis-url", &other.url(), "--into", "copy.", "--map"];
    let load = Launch::command(load);
    let loaded = load.args([&map, &dump]).finish().await;
    assert_eq!(loaded.code, 0, "{loaded:?}");
    for file in [&dump, &map] {
        assert!(!fs::symlink_metadata(file).unwrap().is_symlink(), "{file:?}");
        assert_eq!(mode(file), 0o600, "{file:?}");
        assert!(!text_of(file).is_empty());
    }
    assert_eq!(text_of(&victim), "precious");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 5, "no part is left");
}
