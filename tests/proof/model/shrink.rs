//! From a sequence that fails to a short one that fails in the same way: first whole runs of steps go,
//! the longest first, then what is left is made simpler, step by step.

use std::time::Instant;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::steps::Step;
use super::strategy::step;

type Tree = Box<dyn ValueTree<Value = Step>>;

/// The steps of a sequence, each of which knows how to become simpler.
pub struct Sequence {
    trees: Vec<Tree>,
}

impl Sequence {
    /// The sequence of this seed: the same at any time.
    pub fn draw(seed: u64, steps: usize) -> Sequence {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let config = Config { failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, random);
        let strategy = step().boxed();
        let mut tree = || strategy.new_tree(&mut runner);
        let trees = (0..steps).map(|_| tree().expect("a strategy without filters"));
        Sequence { trees: trees.collect() }
    }

    pub fn steps(&self) -> Vec<Step> {
        self.trees.iter().map(|tree| tree.current()).collect()
    }

    /// Shrinks as long as `fails` says that it fails alike, until `end` at most.
    pub fn shrink(&mut self, end: Instant, mut fails: impl FnMut(&[Step]) -> bool) {
        let mut before = usize::MAX;
        while self.trees.len() < before && Instant::now() < end {
            before = self.trees.len();
            self.remove(end, &mut fails);
            self.simplify(end, &mut fails);
        }
    }

    fn remove(&mut self, end: Instant, fails: &mut impl FnMut(&[Step]) -> bool) {
        let mut run = self.trees.len() / 2;
        while run > 0 {
            // What comes late is needed least: the failure itself is last.
            let mut upto = self.trees.len();
            while upto >= run && Instant::now() < end {
                let mut rest: Vec<Step> = self.steps();
                rest.drain(upto - run..upto);
                if fails(&rest) {
                    self.trees.drain(upto - run..upto);
                }
                upto -= run;
            }
            run /= 2;
        }
    }

    fn simplify(&mut self, end: Instant, fails: &mut impl FnMut(&[Step]) -> bool) {
        for n in 0..self.trees.len() {
            let mut more = self.trees[n].simplify();
            while more && Instant::now() < end {
                more = match fails(&self.steps()) {
                    true => self.trees[n].simplify(),
                    false => self.trees[n].complicate(),
                };
            }
            // Out of time in the middle: back to what failed last.
            while more && !fails(&self.steps()) {
                more = self.trees[n].complicate();
            }
        }
    }
}
