//! The scenarios on Redis's side, each for a few seconds; `make prove` runs the same for longer.

use crate::proof::scenarios::run;
use crate::proof::stage::Durability::{Always, Everysec, Memory};
use crate::proof::stage::Setting;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_killed() {
    // With `always` every answer is on disk before it is sent: I1 holds strictly.
    run("redis_killed", Setting::short(Always, 2)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_killed_everysec() {
    run("redis_killed", Setting::short(Everysec, 2)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_lost() {
    run("power_lost", Setting::short(Always, 3)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_lost_everysec() {
    run("power_lost", Setting::short(Everysec, 3)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storm() {
    run("storm", Setting { messages: 2_000, ..Setting::short(Always, 2) }).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn customers() {
    run("customers", Setting::short(Always, 2)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut() {
    run("connections_cut", Setting::short(Memory, 6)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_flushed() {
    run("scripts_flushed", Setting::short(Memory, 50)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_paused() {
    run("redis_paused", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_busy() {
    run("redis_busy", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_full() {
    run("memory_full", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_stays() {
    run("memory_stays", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_full() {
    run("disk_full", Setting::short(Everysec, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_full_always() {
    run("disk_full", Setting::short(Always, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_lost() {
    run("answers_lost", Setting::short(Memory, 3)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_delayed() {
    run("answers_delayed", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_cut() {
    run("answers_cut", Setting::short(Memory, 6)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_forward() {
    run("clock_forward", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_back() {
    run("clock_back", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_of_an_instance() {
    run("clock_of_an_instance", Setting::short(Memory, 3)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_of_schedules() {
    run("clock_of_schedules", Setting::short(Memory, 1)).await.expect_clean();
}
