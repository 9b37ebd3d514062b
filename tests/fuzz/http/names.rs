//! Whatever name the document allows in a path is a name that dueq takes.

use crate::request::path::{SchedulePath, TopicPath};
use dueq_fuzz::cases;
use dueq_model::{ScheduleName, TopicName};
use proptest::{prelude::*, string::string_regex};
use utoipa::{IntoParams, openapi::path::ParameterIn};

/// The pattern of the one parameter, and its most characters.
fn documented<P: IntoParams>() -> (String, usize) {
    let params = P::into_params(|| Some(ParameterIn::Path));
    let schema = serde_json::to_value(&params[0].schema).unwrap();
    let most = schema["maxLength"].as_u64().unwrap();
    (schema["pattern"].as_str().unwrap().to_owned(), most as usize)
}

/// Names that fit; the pattern's anchors are not for a generator.
fn fitting<P: IntoParams>() -> impl Strategy<Value = String> {
    let (pattern, most) = documented::<P>();
    let strategy = string_regex(pattern.trim_start_matches('^').trim_end_matches('$')).unwrap();
    strategy.prop_map(move |name| name[..name.len().min(most)].to_owned())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_name_that_fits_is_taken(topic in fitting::<TopicPath>(), schedule in fitting::<SchedulePath>()) {
        prop_assert!(TopicName::parse(&topic).is_ok(), "{topic}");
        prop_assert!(ScheduleName::parse(&schedule).is_ok(), "{schedule}");
    }
}
