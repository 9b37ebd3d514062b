//! How the OpenAPI document describes requests and answers: `request!` and `answer!` declare them, and the types of their
//! fields describe themselves.

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
    /// That of a declared struct.
    pub fn of<T: Declared>() -> Self {
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

/// A type of fields.
pub trait Described {
    /// Its schema, or a reference to one that it adds to the components.
    fn schema(document: &mut Description) -> RefOr<Schema>;

    /// Adds the property, or the properties, that the field is of its object.
    fn describe(property: Property, object: &mut Description) {
        let schema = Self::schema(object);
        object.properties.push(Property { schema, required: true, ..property });
    }

    /// Do answers leave the field out?
    fn is_absent(&self) -> bool {
        false
    }
}

/// A struct that `request!` or `answer!` declares.
pub trait Declared: ToSchema {
    /// Adds its fields as the document has them.
    fn describe_fields(object: &mut Description);
}

/// Within another struct it is an object.
impl<T: Declared> Described for T {
    fn schema(document: &mut Description) -> RefOr<Schema> {
        T::schemas(&mut document.components);
        document.component::<T>()
    }
}

/// How a struct describes itself that `request!` or `answer!` declares, by the kind of its object and the schemas, examples
/// and defaults of its fields.
macro_rules! declared {
    (
        $Name:ident $(<$life:lifetime>)?, $shown:expr, [$($about:expr),*], $example:expr, $is_request:literal;
        $($field:ident: $Type:ty, [$($doc:expr),*], $sample:expr, $default:expr;)*
    ) => {
        impl $(<$life>)? $crate::openapi::describe::Declared for $Name $(<$life>)? {
            #[allow(unused_variables, reason = "there are requests without fields")]
            fn describe_fields(object: &mut $crate::openapi::describe::Description) {
                $(
                    let property = $crate::openapi::describe::Property {
                        example: $sample,
                        default: $default,
                        ..$crate::openapi::describe::Property::new(stringify!($field), &[$($doc),*])
                    };
                    <$Type as $crate::openapi::describe::Described>::describe(property, object);
                )*
            }
        }

        impl $(<$life>)? utoipa::PartialSchema for $Name $(<$life>)? {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $crate::openapi::describe::object::<Self>(&[$($about),*], $example, $is_request)
            }
        }

        impl $(<$life>)? utoipa::ToSchema for $Name $(<$life>)? {
            fn name() -> std::borrow::Cow<'static, str> {
                $shown.into()
            }

            fn schemas(all: &mut $crate::openapi::describe::Components) {
                all.extend($crate::openapi::describe::Description::of::<Self>().components);
            }
        }
    };
}

/// A value that the document shows, if there is one.
macro_rules! sample {
    () => {
        None
    };
    ($value:expr) => {
        Some($crate::openapi::describe::value(&$value))
    };
    ($Type:ty, $value:expr) => {
        Some($crate::openapi::describe::value::<$Type>(&$value))
    };
}

pub(crate) use {declared, sample};

/// Types by their schemas.
macro_rules! described {
    ($($Type:ty: $schema:expr;)*) => {$(
        impl $crate::openapi::describe::Described for $Type {
            fn schema(
                document: &mut $crate::openapi::describe::Description,
            ) -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let schema: fn(&mut $crate::openapi::describe::Description) -> _ = $schema;
                schema(document).into()
            }
        }
    )*};
}

pub(crate) use described;

/// A field of a declared struct.
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
        let (description, example, default) = (in_one_line(comment.iter().copied()), None, None);
        Self { name, description, schema, required, nullable, resettable, example, default }
    }

    /// The schema of the field in its object. The description names the default: as `default`, it makes generators write clients
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
    pub fn into_parameter(self) -> Parameter {
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

/// The schema of a declared struct with this comment. A request is closed to fields that it does not know; an answer has
/// no nulls.
pub fn object<T: Declared>(
    comment: &[&str],
    example: Option<serde_json::Value>,
    is_request: bool,
) -> RefOr<Schema> {
    let closed = is_request.then_some(AdditionalProperties::<Schema>::FreeForm(false));
    let mut object = ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(in_one_line(comment.iter().copied())))
        .additional_properties(closed);
    for mut property in Description::of::<T>().properties {
        property.nullable &= is_request;
        if property.required {
            object = object.required(property.name);
        }
        object = object.property(property.name, property.into_schema());
    }
    let mut object = object.build();
    object.example = example;
    RefOr::T(object.into())
}

/// Implements how the document describes the parameters of an extractor.
macro_rules! parameters {
    ($($Extractor:ident: $place:ident $($name:literal $(= $example:literal)? $schema:expr, $about:literal);+;)*) => {$(
        impl utoipa::IntoParams for $Extractor {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                let place = || utoipa::openapi::path::ParameterIn::$place;
                vec![$($crate::openapi::describe::parameter(
                    place(), $name, $about, $crate::openapi::describe::sample!($($example)?), $schema.into(),
                )),+]
            }
        }
    )*};
}

pub(crate) use parameters;

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
pub fn formatted(format: KnownFormat) -> ObjectBuilder {
    string().format(Some(SchemaFormat::KnownFormat(format)))
}

/// An integer.
pub fn integer() -> ObjectBuilder {
    let format = SchemaFormat::KnownFormat(KnownFormat::Int64);
    ObjectBuilder::new().schema_type(Type::Integer).format(Some(format))
}

/// A number.
pub fn number() -> ObjectBuilder {
    let format = SchemaFormat::KnownFormat(KnownFormat::Double);
    ObjectBuilder::new().schema_type(Type::Number).format(Some(format))
}

/// An object of strings.
pub fn strings_by_name() -> ObjectBuilder {
    let strings = AdditionalProperties::<Schema>::RefOr(string().into());
    ObjectBuilder::new().property_names(Some(string())).additional_properties(Some(strings))
}

/// A value of the document.
pub fn value<T: serde::Serialize>(value: &T) -> serde_json::Value {
    // An example is a literal; the document's test sees one that is missing.
    serde_json::to_value(value).unwrap_or_default()
}

/// The text of a comment without the line ends of the source that it was written in; paragraphs stay.
pub fn in_one_line<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for line in lines.into_iter().map(str::trim) {
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
