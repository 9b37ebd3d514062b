//! Which Sentinel's answer counts.

use super::*;

fn view(seed: &str, host: &str, epoch: i64, group: &[&str]) -> Result<View, Refusal> {
    Ok(View {
        seed: seed.to_owned(),
        name: "orders".to_owned(),
        address: (host.to_owned(), 6379),
        epoch,
        replicas: 1,
        group: group.iter().map(|id| (*id).to_owned()).collect(),
    })
}

fn silent(seed: &str) -> Result<View, Refusal> {
    Err(Refusal::Silent(format!("{seed}: refused")))
}

fn wrong() -> Result<View, Refusal> {
    Err(Refusal::Wrong(ConnectError::NoMaster("s9".to_owned())))
}

#[test]
fn the_highest_epoch_among_those_that_answer_counts() {
    let all = ["1", "2", "3"];
    let answers = vec![silent("s3"), view("s1", "a", 4, &all), view("s2", "b", 5, &all)];
    assert_eq!(choose(answers, None).unwrap().address.0, "b");
    let told = choose(vec![silent("s2"), silent("s1")], None).unwrap_err().to_string();
    assert_eq!(told, "no Sentinel answers: s1: refused; s2: refused");
}

#[test]
fn of_two_names_of_one_server_the_known_one_stays() {
    let answers = || vec![view("s1", "a", 1, &["1", "2"]), view("s2", "a.example", 1, &["2", "1"])];
    assert_eq!(choose(answers(), None).unwrap().address.0, "a");
    let known = view("s2", "a.example", 1, &[]).unwrap();
    assert_eq!(choose(answers(), Some(&known)).unwrap().address.0, "a.example");
}

#[test]
fn groups_that_do_not_know_each_other_are_not_one() {
    let one_epoch_behind = vec![view("s1", "a", 4, &["1", "2"]), view("s2", "b", 5, &["2", "1"])];
    assert_eq!(choose(one_epoch_behind, None).unwrap().address.0, "b");
    let strangers = vec![view("s1", "a", 4, &["1", "2"]), view("s3", "b", 5, &["3", "4"])];
    let told = choose(strangers, None).unwrap_err().to_string();
    for word in ["orders", "b:6379 by s3", "a:6379 by s1"] {
        assert!(told.contains(word), "{told}");
    }
    let agreed = vec![view("s1", "a", 0, &["1"]), view("s3", "a", 0, &["3"])];
    assert_eq!(choose(agreed, None).unwrap().address.0, "a");
}

#[test]
fn what_is_wrong_with_a_sentinel_is_an_error_until_the_primary_was_known() {
    let answers = || vec![view("s1", "a", 4, &["1"]), wrong()];
    assert!(matches!(choose(answers(), None), Err(ConnectError::NoMaster(_))));
    let known = view("s1", "a", 4, &["1"]).unwrap();
    assert_eq!(choose(answers(), Some(&known)).unwrap().address.0, "a");
    assert!(choose(vec![wrong(), silent("s1")], Some(&known)).is_err());
}
