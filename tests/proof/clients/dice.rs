//! Choices that follow from the run's seed and from what they are for, and never from timing.

use std::hash::{DefaultHasher, Hash, Hasher};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Dice for one choice: the same seed and purpose throw the same, whenever and by whomever.
pub fn dice(seed: u64, purpose: impl Hash) -> StdRng {
    let mut hasher = DefaultHasher::new(); // its keys are always the same
    (seed, purpose).hash(&mut hasher);
    StdRng::seed_from_u64(hasher.finish())
}

/// What is in store for a message alongside its consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fate {
    /// It is to be deleted.
    pub deleted: bool,
    /// It is to be changed.
    pub updated: bool,
    /// It is to be looked at.
    pub watched: bool,
}

/// The fate of the message that was published with this payload.
pub fn fate(seed: u64, payload: &str) -> Fate {
    let mut dice = dice(seed, ("fate", payload));
    Fate {
        deleted: dice.random_bool(0.04),
        updated: dice.random_bool(0.05),
        watched: dice.random_bool(0.05),
    }
}

/// One of these, by their weights.
pub fn pick<T: Copy>(dice: &mut StdRng, choices: &[(T, u32)]) -> T {
    let total: u32 = choices.iter().map(|(_, weight)| weight).sum();
    let mut at = dice.random_range(0..total);
    for (choice, weight) in choices {
        if at < *weight {
            return *choice;
        }
        at -= weight;
    }
    unreachable!("{at} is below the sum of the weights")
}
