//! The types of a field that holds several values: arrays, maps, objects within a request.

use super::{
    fields::{Fields, Value},
    syntax::{Items, Object},
    values::{in_range, integer_of, words},
};
use crate::model::MAX_MESSAGES_LIMIT;
use serde_json::value::RawValue;
use std::{collections::BTreeMap, ops::RangeInclusive};

impl<'a> Fields<'a> {
    /// An array of words of `choices`, at least one and none twice; null is absent.
    pub fn choices<T: Copy + PartialEq>(
        &mut self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Option<Vec<T>> {
        let mut chosen = Vec::new();
        for item in self.array(name, 1..=choices.len())? {
            let text = Value::Json(item).text();
            match text.and_then(|text| choices.iter().find(|(word, _)| *word == text)) {
                Some((_, value)) if !chosen.contains(value) => chosen.push(*value),
                Some(_) => self.refuse(name, "must not name one twice"),
                None => self.refuse(name, format!("must have items of {}", words(choices))),
            }
        }
        Some(chosen)
    }

    /// An array of so many integers within `range`; null is absent.
    pub fn integers(
        &mut self,
        name: &str,
        items: RangeInclusive<usize>,
        range: RangeInclusive<u64>,
    ) -> Option<Vec<u64>> {
        let mut all = Vec::new();
        for (i, item) in self.array(name, items)?.into_iter().enumerate() {
            match integer_of(item.get()).and_then(|number| in_range(number, &range)) {
                Some(number) => all.push(number),
                None => {
                    let (low, high) = (range.start(), range.end());
                    let reason = format!("must be an integer from {low} to {high}");
                    self.refuse(&format!("{name}[{i}]"), reason);
                }
            }
        }
        Some(all)
    }

    /// An array of so many strings, each read by `read`, which says why one cannot be taken; null is absent.
    pub fn strings<T>(
        &mut self,
        name: &str,
        items: RangeInclusive<usize>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let mut all = Vec::new();
        for (i, item) in self.array(name, items)?.into_iter().enumerate() {
            let text = Value::Json(item).text().ok_or_else(|| "must be a string".to_owned());
            match text.and_then(|text| read(&text)) {
                Ok(value) => all.push(value),
                Err(reason) => self.refuse(&format!("{name}[{i}]"), reason),
            }
        }
        Some(all)
    }

    /// A map of strings; null is absent.
    pub fn string_map(&mut self, name: &str) -> Option<BTreeMap<String, String>> {
        let raw = self.raw_value(name)?;
        let Ok(object) = serde_json::from_str::<Object<'a>>(raw.get()) else {
            self.refuse(name, "must be an object of strings");
            return None;
        };
        let place = || name.to_owned();
        Some(self.within(Fields::of(object), place, |fields| {
            let mut map = BTreeMap::new();
            for (key, value) in fields.take_all() {
                match value.text() {
                    Some(text) => drop(map.insert(key.into_owned(), text.into_owned())),
                    None => fields.refuse(&key, "must be a string"),
                }
            }
            map
        }))
    }

    /// An object, read by `read`; null is absent.
    pub fn object<T>(&mut self, name: &str, read: impl FnOnce(&mut Fields<'a>) -> T) -> Option<T> {
        let raw = self.raw_value(name)?;
        match serde_json::from_str::<Object<'a>>(raw.get()) {
            Ok(object) => Some(self.within(Fields::of(object), || name.to_owned(), read)),
            Err(_) => {
                self.refuse(name, "must be an object");
                None
            }
        }
    }

    /// An array of objects, at most so many, each read by `read`; null is absent.
    pub fn objects<T>(
        &mut self,
        name: &str,
        most: usize,
        read: impl Fn(&mut Fields<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.objects_within(name, 0..=most, read)
    }

    /// The `messages` of a batch, each read by `read`.
    pub fn batch<T>(&mut self, read: impl Fn(&mut Fields<'a>) -> Option<T>) -> Vec<T> {
        let messages = self.objects_within("messages", 1..=MAX_MESSAGES_LIMIT as usize, read);
        self.required("messages", messages).unwrap_or_default()
    }

    fn objects_within<T>(
        &mut self,
        name: &str,
        items: RangeInclusive<usize>,
        read: impl Fn(&mut Fields<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let raw = self.raw_value(name)?;
        // Mostly all is well, and then the text is gone over once.
        let read_all = serde_json::from_str::<Items<Object<'a>>>(raw.get());
        let (objects, overflows) = match read_all {
            Ok(array) => (array.items.into_iter().map(Some).collect(), array.overflows),
            Err(_) => self.objects_or_not(name, raw)?,
        };
        if overflows || !items.contains(&objects.len()) {
            let (low, high) = (items.start(), items.end());
            self.refuse(name, format!("must have {low} to {high} items"));
            return None;
        }
        let mut all = Vec::with_capacity(objects.len());
        for (i, object) in objects.into_iter().enumerate() {
            let place = || format!("{name}[{i}]");
            match object {
                Some(object) => all.extend(self.within(Fields::of(object), place, &read)),
                None => self.refuse(&place(), "must be an object"),
            }
        }
        Some(all)
    }

    /// The items of an array some of which are no objects, and whether there are more.
    fn objects_or_not(
        &mut self,
        name: &str,
        raw: &'a RawValue,
    ) -> Option<(Vec<Option<Object<'a>>>, bool)> {
        let Ok(array) = serde_json::from_str::<Items<&'a RawValue>>(raw.get()) else {
            self.refuse(name, "must be an array");
            return None;
        };
        let object = |item: &'a RawValue| serde_json::from_str(item.get()).ok();
        Some((array.items.into_iter().map(object).collect(), array.overflows))
    }

    /// An array of so many items; null is absent.
    fn array(&mut self, name: &str, items: RangeInclusive<usize>) -> Option<Vec<&'a RawValue>> {
        let raw = self.raw_value(name)?;
        let array = serde_json::from_str::<Items<&'a RawValue>>(raw.get()).ok();
        let array = array.filter(|array| !array.overflows && items.contains(&array.items.len()));
        if array.is_none() {
            let (low, high) = (items.start(), items.end());
            self.refuse(name, format!("must be an array of {low} to {high} items"));
        }
        array.map(|array| array.items)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{fields::Fields, values::tests::read};

    #[test]
    fn words_of_an_array_are_known_and_named_once() {
        let words = [("a", 1), ("b", 2), ("c", 3)];
        assert_eq!(read("[\"c\",\"a\"]", |f| f.choices("v", &words)), (Some(vec![3, 1]), vec![]));
        for bad in ["[]", "[\"a\",\"a\"]", "[\"d\"]", "\"a\"", "[1]"] {
            assert_eq!(read(bad, |f| f.choices("v", &words)).1.len(), 1, "{bad}");
        }
    }

    #[test]
    fn what_is_wrong_within_is_named_by_its_place() {
        let object = |fields: &mut Fields<'_>| {
            fields.object("v", |v| v.integers("list", 1..=3, 0..=9));
        };
        let (_, errors) = read(r#"{"list":[1,-1,"x"],"more":1}"#, object);
        let named: Vec<_> = errors.iter().map(|(field, _)| field.as_str()).collect();
        assert_eq!(named, ["v.list[1]", "v.list[2]", "v.more"]);
        let objects = |fields: &mut Fields<'_>| fields.objects("v", 9, |v| v.integer("n", 0..=9));
        let (_, errors) = read(r#"[{"n":1},7,{"n":{}},{}]"#, objects);
        let named: Vec<_> = errors.iter().map(|(field, _)| field.as_str()).collect();
        assert_eq!(named, ["v[1]", "v[2].n"]);
    }
}
