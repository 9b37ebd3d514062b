//! The replies to an audit's looks: an audit is there for damage, so none may end it but by an error.

use super::{
    finding::{Subject, became, known},
    scripts::{read_counted, read_mended, read_page},
};
use crate::fuzz::{answer, array, bulk, member, num, partition, reply, settings};
use deadpool_redis::redis::Value;
use dueq_fuzz::{cases, text};
use proptest::{collection::vec, prelude::*};

fn word() -> impl Strategy<Value = Value> {
    text().prop_map(bulk)
}

/// What a look of a walk gives.
fn page() -> impl Strategy<Value = Value> {
    let found = vec((member(), word(), word()), 0..4);
    let bodies = vec(member(), 0..4);
    (word(), num(), num(), found, bodies).prop_map(|(cursor, seen, bytes, found, bodies)| {
        let found = found.into_iter().flat_map(|(member, defect, more)| [member, defect, more]);
        array(vec![cursor, seen, bytes, array(found.collect()), array(bodies)])
    })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn walks(settings in settings(), reply in reply(page())) {
        let route = partition(settings.clone()).route;
        if let Some(page) = answer(read_page, settings, reply) {
            for (member, defect, _) in page.found {
                prop_assert!(!known(&defect).is_empty());
                Subject::message(&member, route);
            }
        }
    }

    #[test]
    fn mending_and_counting(
        settings in settings(),
        words in reply((num(), vec(word(), 0..4)).prop_map(|(wake, words)| array([wake].into_iter().chain(words).collect()))),
    ) {
        if let Some(words) = answer(read_mended, settings.clone(), words.clone()) {
            prop_assert!(words.iter().all(|word| !became(word).is_empty()));
        }
        answer(read_counted, settings, words);
    }
}
