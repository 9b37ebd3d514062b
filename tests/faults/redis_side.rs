//! The scenarios on Redis's side, each for a few seconds; `make prove` runs the same for longer.

use crate::proof::scenarios::{
    answers, clock, connections, disk, memory, memory_stays, power, stall, storm,
};
use crate::proof::stage::Durability::{Always, Everysec, Memory};
use crate::proof::stage::Setting;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_killed() {
    // With `always` every answer is on disk before it is sent: I1 holds strictly.
    power::redis_killed(Setting::short(Always, 2)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_killed_everysec() {
    power::redis_killed(Setting::short(Everysec, 2)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_lost() {
    power::power_lost(Setting::short(Always, 3)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_lost_everysec() {
    power::power_lost(Setting::short(Everysec, 3)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storm() {
    storm::storm(Setting { messages: 3_000, ..Setting::short(Always, 2) }).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut() {
    connections::connections_cut(Setting::short(Memory, 6)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_flushed() {
    connections::scripts_flushed(Setting::short(Memory, 50)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_paused() {
    stall::redis_paused(Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_busy() {
    stall::redis_busy(Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_full() {
    memory::memory_full(Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_stays() {
    memory_stays::memory_stays(Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_full() {
    disk::disk_full(Setting::short(Everysec, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_full_always() {
    disk::disk_full(Setting::short(Always, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_lost() {
    answers::answers_lost(Setting::short(Memory, 3)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_delayed() {
    answers::answers_delayed(Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_cut() {
    answers::answers_cut(Setting::short(Memory, 6)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_forward() {
    clock::clock_forward(Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_back() {
    clock::clock_back(Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_of_an_instance() {
    clock::clock_of_an_instance(Setting::short(Memory, 3)).await.expect_clean();
}
