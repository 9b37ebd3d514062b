//! The model test in its short form: random sequences of all operations, each answer as the model of
//! the contract says.

use crate::proof::model;

#[test]
fn model_sequences() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let count = number("DUEQ_TEST_SEQUENCES").and_then(|n| usize::try_from(n).ok());
    match model::run(count.unwrap_or(150), 100, number("DUEQ_TEST_SEED"), 2, None) {
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
