//! The model test in its short form: random sequences of all operations, each answer as the model of
//! the contract says. They are the same ones each time, so that a failure is the doing of the change at hand; `make prove` draws others.

use crate::proof::model;

#[test]
fn model_sequences() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let count = number("DUEQ_TEST_SEQUENCES").and_then(|n| usize::try_from(n).ok());
    let seed = number("DUEQ_TEST_SEED").unwrap_or(1);
    match model::run(count.unwrap_or(150), 100, Some(seed), 2, None) {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("\n{failure}"),
    }
}

#[test]
fn what_went_wrong_once_goes_as_the_model_says() {
    if let Err(failure) = model::known() {
        panic!("\n{failure}");
    }
}
