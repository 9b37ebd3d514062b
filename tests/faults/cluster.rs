//! A Redis Cluster under dueq: primaries that die, slots that move, scripts and connections that are gone on one node. The
//! topics of the others are served throughout.

use crate::harness::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_harness_starts_a_cluster_fails_it_over_and_moves_its_slots() {
    let begin = std::time::Instant::now();
    let mut cluster = Cluster::start(3, 1).await;
    println!("started within {:?}", begin.elapsed());
    let [here, there] = [cluster.topic_on(0, "here").await, cluster.topic_on(1, "there").await];
    assert_eq!(cluster.primary_of_topic(&here).await, 0);
    assert_eq!(cluster.primary_of_topic(&there).await, 1);
    let key = format!("{{{here}:0}}:k");
    let _: () = cluster.node(0).command(&["SET", &key, "1"]).await;
    let moving = cluster.begin_move(slot(&key), 1).await;
    let missing = format!("{{{here}:0}}:missing");
    let refused = ask::<()>(cluster.node(0), &["GET", &missing]).await.unwrap_err();
    assert_eq!(refused.code(), Some("ASK"), "{refused}");
    cluster.end_move(moving).await;
    let refused = ask::<()>(cluster.node(0), &["GET", &key]).await.unwrap_err();
    assert_eq!(refused.code(), Some("MOVED"), "{refused}");
    if moves_atomically() {
        cluster.move_slot_atomically(slot(&key), 2).await;
        let there: String = cluster.node(2).command(&["GET", &key]).await;
        assert_eq!(there, "1");
    }
    cluster.kill9(1);
    let begin = std::time::Instant::now();
    assert_eq!(cluster.taken_over(slot_of(&there), 1).await, 4);
    println!("a replica has taken over within {:?}", begin.elapsed());
    cluster.restart(1).await;
    cluster.is_whole().await;
    cluster.freeze(2);
    cluster.thaw(2);
    cluster.is_whole().await;
}
