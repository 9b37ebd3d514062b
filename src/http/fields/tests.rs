//! How bodies are taken apart: types, ranges, names, and errors that stay short.

use super::*;

#[test]
fn integers_are_taken_by_value_and_refused_by_type_and_range() {
    for (text, number) in [("5", Some(5)), ("5.0", Some(5)), ("1e1", Some(10)), ("-0", Some(0))] {
        let body = format!("{{\"n\":{text}}}");
        let mut fields = Fields::of_json(body.as_bytes()).unwrap();
        assert_eq!(fields.integer("n", 0..=10), number, "{text}");
        assert!(fields.finish().is_ok());
    }
    for text in ["11", "-1", "1.5", "1e999", "\"5\"", "true", "[]", "18446744073709551616"] {
        let body = format!("{{\"n\":{text}}}");
        let mut fields = Fields::of_json(body.as_bytes()).unwrap();
        assert_eq!(fields.integer("n", 0..=10), None, "{text}");
        assert!(fields.finish().is_err(), "{text}");
    }
}

#[test]
fn unknown_and_repeated_fields_are_refused_by_name() {
    let mut fields = Fields::of_json(br#"{"a":1,"b":2,"\u0061":3}"#).unwrap();
    fields.integer("a", 0..=9);
    let Err(problem) = fields.finish() else { panic!("taken") };
    let named: Vec<_> = problem.body("").errors.into_iter().map(|e| (e.field, e.reason)).collect();
    let expected = [("a", "is given more than once"), ("b", "is not known here")];
    assert_eq!(named, expected.map(|(f, r)| (f.to_owned(), Cow::Borrowed(r))));
}

#[test]
fn syntax_is_400_before_anything_else_is_looked_at() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(64), "]".repeat(64));
    for bad in ["", "{", "{}x", "{\"a\":1,}", "[1,2", "{\"a\":\"\n\"}", "nul", "\u{feff}{}", &deep]
    {
        let problem = Fields::of_json(bad.as_bytes()).unwrap_err();
        assert_eq!(problem.body("").status, 400, "{bad}");
    }
    assert_eq!(Fields::of_json(b"{\"a\":\"\xff\"}").unwrap_err().body("").status, 400);
    for other in ["[]", "1", "null", "\"x\""] {
        assert_eq!(Fields::of_json(other.as_bytes()).unwrap_err().body("").status, 422, "{other}");
    }
    let fine = format!("{{\"a\":{}1{}}}", "[".repeat(63), "]".repeat(63));
    assert!(Fields::of_json(fine.as_bytes()).is_ok());
}

#[test]
fn an_object_of_too_many_fields_is_refused_under_its_own_name_in_a_short_answer() {
    let many: Vec<_> = (0..1000).map(|i| format!("\"f{i}\":1")).collect();
    let body = format!("{{\"headers\":{{{}}}}}", many.join(","));
    let mut fields = Fields::of_json(body.as_bytes()).unwrap();
    fields.string_map("headers");
    let errors = fields.finish().unwrap_err().body("").errors;
    assert_eq!((errors[0].field.as_str(), errors.len()), ("headers", MAX_ERRORS));

    let items = vec!["1"; 1000].join(",");
    let body = format!("{{\"acks\":[{items}]}}");
    let mut fields = Fields::of_json(body.as_bytes()).unwrap();
    fields.objects("acks", 1000, |_| Some(()));
    let errors = fields.finish().unwrap_err().body("").errors;
    assert_eq!((errors[1].field.as_str(), errors.len()), ("acks[1]", MAX_ERRORS));
}
