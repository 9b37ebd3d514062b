//! `dueq backup`: a copy of the private Redis's data is a data directory of its own.

use std::fs;

use serde_json::json;

use crate::{
    audit::{audit, clean},
    harness::*,
    moving::dueq,
};

#[tokio::test]
async fn a_backup_of_data_that_are_served_is_a_data_directory() {
    let dir = temp_dir("backup");
    let (data, backups) = (dir.join("data"), dir.join("backups"));
    let there = Dueq::embedded(&data).start().await;
    let client = there.client();
    let mut ids = Vec::new();
    for n in 0..50 {
        ids.push(client.published("orders", json!({"payload": n, "key": n.to_string()})).await);
    }
    let words =
        ["backup", backups.to_str().unwrap(), "--data-dir", data.to_str().unwrap(), "--keep", "1"];
    let busy = async {
        for n in 0..200 {
            client.published("later", json!({"payload": n})).await;
        }
    };
    let (first, ()) = tokio::join!(dueq(&words), busy);
    assert_eq!((first.code, &*first.stderr), (0, ""), "{first:?}");
    let second = dueq(&words).await;
    assert!(second.stdout.ends_with("; deleted 1\n"), "{second:?}");
    let kept: Vec<_> = fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept.len(), 1);
    assert!(second.stdout.starts_with(kept[0].to_str().unwrap()), "{second:?}");
    drop(there);
    clean(&audit(&["--data-dir", kept[0].to_str().unwrap()]).await);
    let restored = Dueq::embedded(&kept[0]).start().await;
    for id in &ids {
        assert_eq!(restored.client().state(id).await, "ready");
    }
    assert_eq!(restored.client().count("later", "ready").await, 200);
    let none = dueq(&["backup", "x", "--data-dir", dir.to_str().unwrap()]).await;
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("there are no data of a private Redis in"), "{none:?}");
}
