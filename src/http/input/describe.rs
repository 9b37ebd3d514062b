//! How requests stand in the OpenAPI document.

use super::Request;
use utoipa::{
    ToSchema,
    openapi::{
        KnownFormat, ObjectBuilder, OneOfBuilder, Ref, RefOr, Required, Schema, SchemaFormat, Type,
        path::{Parameter, ParameterBuilder, ParameterIn},
        schema::{AdditionalProperties, SchemaType},
    },
};

/// Schemas by their names.
pub type Components = Vec<(String, RefOr<Schema>)>;

/// The properties of an object, and the schemas that they refer to.
#[derive(Default)]
pub struct Description {
    pub properties: Vec<Property>,
    pub components: Components,
}

impl Description {
    /// That of a request.
    pub fn of<T: Request>() -> Self {
        let mut object = Self::default();
        T::describe_fields(&mut object);
        object
    }

    /// Adds a schema of its own, and refers to it.
    pub fn component<T: ToSchema>(&mut self) -> RefOr<Schema> {
        self.components.push((T::name().into_owned(), T::schema()));
        Ref::from_schema_name(T::name()).into()
    }
}

/// A field of a request.
pub struct Property {
    pub name: &'static str,
    pub description: String,
    pub schema: RefOr<Schema>,
    /// It must be there.
    pub required: bool,
    /// It may be null, which is the same as absent.
    pub nullable: bool,
    /// Where something is changed, null sets it back.
    pub resettable: bool,
    pub example: Option<serde_json::Value>,
    pub default: Option<serde_json::Value>,
}

impl Property {
    /// A field of any type, with the lines of its comment.
    pub fn new(name: &'static str, comment: &[&str]) -> Self {
        let schema = ObjectBuilder::new().schema_type(SchemaType::AnyValue).into();
        let (required, nullable, resettable) = (false, false, false);
        let (description, example, default) = (in_one_line(comment), None, None);
        Self { name, description, schema, required, nullable, resettable, example, default }
    }

    /// The schema of the field in its object. The default is told in words: told as `default`, generators make clients
    /// that always send it, or make it a field that must be given.
    fn into_schema(self) -> RefOr<Schema> {
        let mut description = self.description;
        if let Some(default) = self.default {
            let value = match default.as_str() {
                Some(word) => format!("`{word}`"),
                None => default.to_string(),
            };
            description += &format!(" Default: {value}.");
        }
        let or_null = |kind: &mut SchemaType| {
            if let (true, SchemaType::Type(known)) = (self.nullable, &kind) {
                *kind = SchemaType::from_iter([known.clone(), Type::Null]);
            }
        };
        match self.schema {
            RefOr::Ref(reference) if self.nullable => OneOfBuilder::new()
                .item(reference)
                .item(ObjectBuilder::new().schema_type(Type::Null))
                .description(Some(description))
                .into(),
            RefOr::Ref(mut reference) => {
                reference.description = description;
                reference.into()
            }
            RefOr::T(Schema::Object(mut object)) => {
                or_null(&mut object.schema_type);
                (object.description, object.example) = (Some(description), self.example);
                Schema::Object(object).into()
            }
            RefOr::T(Schema::Array(mut array)) => {
                or_null(&mut array.schema_type);
                (array.description, array.example) = (Some(description), self.example);
                Schema::Array(array).into()
            }
            other => other,
        }
    }

    /// The parameter of a query that the field is.
    fn into_parameter(self) -> Parameter {
        let mut schema = self.schema;
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            object.default = self.default;
        }
        ParameterBuilder::new()
            .name(self.name)
            .parameter_in(ParameterIn::Query)
            .required(if self.required { Required::True } else { Required::False })
            .description(Some(self.description))
            .example(self.example)
            .schema(Some(schema))
            .build()
    }
}

/// The schema of a request with this comment, closed to fields that it does not know.
pub fn object<T: Request>(comment: &[&str], example: Option<serde_json::Value>) -> RefOr<Schema> {
    let closed = AdditionalProperties::<Schema>::FreeForm(false);
    let mut object = ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(in_one_line(comment)))
        .additional_properties(Some(closed));
    for property in Description::of::<T>().properties {
        if property.required {
            object = object.required(property.name);
        }
        object = object.property(property.name, property.into_schema());
    }
    let mut object = object.build();
    object.example = example;
    RefOr::T(object.into())
}

/// A request as the parameters of a query.
pub fn query_parameters<T: Request>() -> Vec<Parameter> {
    let properties = Description::of::<T>().properties;
    properties.into_iter().map(Property::into_parameter).collect()
}

/// A parameter of a path or a header.
pub fn parameter(
    place: ParameterIn,
    name: &str,
    description: &str,
    example: Option<serde_json::Value>,
    schema: RefOr<Schema>,
) -> Parameter {
    let required = if place == ParameterIn::Path { Required::True } else { Required::False };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .description(Some(description))
        .example(example)
        .schema(Some(schema))
        .build()
}

/// A string.
pub fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// A string of this format.
pub fn formatted(format: KnownFormat) -> RefOr<Schema> {
    string().format(Some(SchemaFormat::KnownFormat(format))).into()
}

/// A value of the document.
pub fn value<T: serde::Serialize>(value: &T) -> serde_json::Value {
    // An example is a literal; the document's test sees one that is missing.
    serde_json::to_value(value).unwrap_or_default()
}

/// The text of a comment; paragraphs stay.
fn in_one_line(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines.iter().map(|line| line.trim()) {
        if line.is_empty() {
            text += "\n\n";
        } else {
            let begins = text.is_empty() || text.ends_with('\n');
            text += if begins { "" } else { " " };
            text += line;
        }
    }
    text
}
