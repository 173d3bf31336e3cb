//! Kinds of what oracles see, so that each is shown only what it watches.

use rondo_core::control::Record;

use super::Seen;

macro_rules! kinds {
    ($($kind:ident)*) => {
        /// A kind of thing that is seen. Records have one for each of the node's machines.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SeenKind {
            $(
                #[doc = concat!("See [`Seen::", stringify!($kind), "`].")]
                $kind,
            )*
            /// A record of the dispatcher.
            DispatcherRecord,
            /// A record of the coordination service.
            CoordinationRecord,
        }

        impl SeenKind {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Self] = &[
                $(Self::$kind,)*
                Self::DispatcherRecord,
                Self::CoordinationRecord,
            ];

            /// The kind of something.
            pub const fn of(seen: &Seen<'_>) -> Self {
                match seen {
                    $(Seen::$kind { .. } => Self::$kind,)*
                    Seen::Recorded { record: Record::Dispatcher(_), .. } => Self::DispatcherRecord,
                    Seen::Recorded { record: Record::Coordination(_), .. } => {
                        Self::CoordinationRecord
                    }
                }
            }
        }
    };
}

kinds! {
    Taken Durable Answered Asked Told Passed PassedBack PassedGone PassedOver Relay Refused Pushed
    ProcessGone GivenUp Halted StandsStill Resumed Died Recovered NoteIgnored Configured Coordinates
    StartRefused Worked Looked Reread RoundRead Agent Elements Violated Delivered Reads ReadEnded
    Healing HealedLongAgo GoneLongAgo MemoryLeft
}
