//! The fields of records, with their types in other languages.

/// A field of a record.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    /// True if JSON lacks the key where the field has no value.
    pub(crate) optional: bool,
    pub(crate) typescript: fn() -> Name,
    pub(crate) python: fn() -> Name,
}

/// The name of a type, and whether null is a value too.
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) nullable: bool,
}

/// A type with a name in TypeScript and in Python.
pub(crate) trait Named {
    fn typescript() -> Name;
    fn python() -> Name;
}

macro_rules! named {
    ($($type:ty: $typescript:literal, $python:literal;)*) => {
        $(impl $crate::field::Named for $type {
            fn typescript() -> $crate::field::Name {
                $crate::field::Name { text: $typescript.to_owned(), nullable: false }
            }
            fn python() -> $crate::field::Name {
                $crate::field::Name { text: $python.to_owned(), nullable: false }
            }
        })*
    };
}

pub(crate) use named;

named! {
    String: "string", "str";
    bool: "boolean", "bool";
    usize: "number", "int";
    u32: "number", "int";
    u64: "number", "int";
    f64: "number", "float";
}

impl<T: Named> Named for Option<T> {
    fn typescript() -> Name {
        Name { nullable: true, ..T::typescript() }
    }
    fn python() -> Name {
        Name { nullable: true, ..T::python() }
    }
}

impl<T: Named> Named for Vec<T> {
    fn typescript() -> Name {
        let Name { text, nullable } = T::typescript();
        let text = if nullable { format!("({text} | null)[]") } else { format!("{text}[]") };
        Name { text, nullable: false }
    }
    fn python() -> Name {
        let Name { text, nullable } = T::python();
        let text = if nullable { format!("list[{text} | None]") } else { format!("list[{text}]") };
        Name { text, nullable: false }
    }
}

/// Makes the list of the fields of a struct from its body.
macro_rules! fields {
    ($($(#[doc = $d:literal])+ $(#[serde($($s:tt)*)])? pub $n:ident: $t:ty,)*) => {
        &[$($crate::field::Field {
            name: stringify!($n),
            meaning: concat!($($d),+),
            optional: !stringify!($($($s)*)?).is_empty(),
            typescript: <$t as $crate::field::Named>::typescript,
            python: <$t as $crate::field::Named>::python,
        }),*]
    };
}

pub(crate) use fields;

/// Declares a struct, and the list of its fields for other languages.
macro_rules! described {
    ($(#[$meta:meta])* pub struct $name:ident { $($body:tt)* }) => {
        $(#[$meta])*
        pub struct $name { $($body)* }

        impl $name {
            /// The fields with their types in other languages.
            pub(crate) const FIELDS: &'static [$crate::field::Field] = $crate::field::fields! { $($body)* };
        }
    };
}

pub(crate) use described;
