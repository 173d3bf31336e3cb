//! Lists of things with names, each with a place in tables.

/// An enum whose values have names, a list of all, and a number each.
macro_rules! named {
    ($(#[$doc:meta])* $kind:ident { $($(#[$of:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $kind {
            $($(#[$of])* $value,)*
        }

        impl $kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$value,)*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }

            /// Its place in tables.
            pub const fn index(self) -> usize {
                self as usize
            }

            /// The one of a name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'a> serde::Deserialize<'a> for $kind {
            fn deserialize<D: serde::Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
                let name = <std::borrow::Cow<'a, str>>::deserialize(from)?;
                let one = Self::named(&name);
                one.ok_or_else(|| serde::de::Error::custom(format!("{name:?} is no {}", stringify!($kind))))
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(self.name())
            }
        }
    };
}

pub(crate) use named;
