//! The replies to an audit's looks: an audit is there for damage, so none may end it but by an error.

use super::{
    finding::{Subject, became, known},
    scripts::{AuditKeys, AuditMend, AuditMessages, AuditTotals, Step, WALKS},
};
use crate::model::fuzz::{cases, text};
use crate::store::{
    batch::SingleOp,
    fuzz::{array, bulk, context, member, num, reply, settings, stored_body, topic},
};
use deadpool_redis::redis::Value;
use proptest::{collection::vec, prelude::*};

fn word() -> impl Strategy<Value = Value> {
    text().prop_map(bulk)
}

/// What a look of a walk gives.
fn page() -> impl Strategy<Value = Value> {
    let found = vec((member(), word(), word()), 0..4);
    let begins = vec((member(), stored_body()), 0..4);
    (word(), num(), num(), found, begins).prop_map(|(cursor, seen, bytes, found, begins)| {
        let found = found.into_iter().flat_map(|(member, defect, more)| [member, defect, more]);
        let begins = begins.into_iter().flat_map(|(member, begin)| [member, begin]);
        array(vec![cursor, seen, bytes, array(found.collect()), array(begins.collect())])
    })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn walks(settings in settings(), reply in reply(page())) {
        let topic = topic(settings);
        let step = Step { owner: "5".to_owned(), cursor: "0".to_owned(), count: 4 };
        let keys = AuditKeys { walked: "keys", step: step.clone(), repair: false };
        let _ = context(|context| keys.read(&topic, context, reply.clone()));
        let messages = AuditMessages { walked: &WALKS[0], step };
        if let Ok(page) = context(|context| messages.read(&topic, context, reply)) {
            for (member, defect, _) in page.found {
                prop_assert!(!known(&defect).is_empty());
                Subject::message(&member, topic.route);
            }
        }
    }

    #[test]
    fn mending_and_counting(
        settings in settings(),
        words in reply((num(), vec(word(), 0..4)).prop_map(|(wake, words)| array([wake].into_iter().chain(words).collect()))),
    ) {
        let topic = topic(settings);
        let mend = AuditMend { owner: "5".to_owned(), members: Vec::new() };
        if let Ok(words) = context(|context| mend.read(&topic, context, words.clone())) {
            prop_assert!(words.iter().all(|word| !became(word).is_empty()));
        }
        let totals = AuditTotals { owner: "5".to_owned(), repair: false };
        let _ = context(|context| totals.read(&topic, context, words));
    }
}
