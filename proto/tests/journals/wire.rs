//! Messages on the wire, walked without Rondo's decoder, to say which fields the golden files hold.

use std::collections::{BTreeMap, BTreeSet};

use super::schema::{Field, Schema};

/// One message: for each field number, what stands there, with wire types.
type Instance = BTreeMap<u64, Vec<(u64, Vec<u8>)>>;

/// All that was found in some bytes.
#[derive(Default)]
pub(super) struct Seen {
    messages: BTreeMap<String, Vec<Instance>>,
    enums: BTreeMap<String, BTreeSet<u64>>,
}

impl Seen {
    /// Walks a message and those in it.
    pub(super) fn message(&mut self, schema: &Schema, name: &str, mut bytes: &[u8]) {
        let fields = &schema.messages[name];
        let mut instance = Instance::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let (number, wire_type) = (key >> 3, key & 7);
            let value = value(&mut bytes, wire_type);
            let field = fields.iter().find(|field| field.number == number);
            let field = field.unwrap_or_else(|| panic!("{name} has no field {number}"));
            self.value(schema, name, field, wire_type, &value);
            instance.entry(number).or_default().push((wire_type, value));
        }
        for field in fields.iter().filter(|field| field.label.is_empty()) {
            // A number that is left out is 0.
            let resolved = schema.resolve(name, &field.kind);
            if let Some(of) = resolved.filter(|of| schema.enums.contains_key(of))
                && !instance.contains_key(&field.number)
            {
                self.enums.entry(of).or_default().insert(0);
            }
        }
        self.messages.entry(name.to_owned()).or_default().push(instance);
    }

    fn value(&mut self, schema: &Schema, of: &str, field: &Field, wire_type: u64, value: &[u8]) {
        let is_packed = field.label == "repeated ";
        let expected = match field.kind.as_str() {
            "fixed64" | "sfixed64" if !is_packed => 1,
            "bool" | "int32" | "int64" | "uint32" | "uint64" | "sint64" if !is_packed => 0,
            kind => match schema.resolve(of, kind) {
                Some(kind) if schema.messages.contains_key(&kind) => {
                    self.message(schema, &kind, value);
                    2
                }
                Some(kind) => {
                    self.enums.entry(kind).or_default().insert(varint(&mut &*value));
                    0
                }
                None => 2,
            },
        };
        assert_eq!(wire_type, expected, "wire type of {of}.{}", field.name);
    }

    /// Fields, numbers of enums and absences of optional fields that were not found.
    pub(super) fn missing(&self, schema: &Schema, package: &str) -> Vec<String> {
        let mut missing = Vec::new();
        for (message, fields) in within(&schema.messages, package) {
            let instances = self.messages.get(message).map(Vec::as_slice).unwrap_or_default();
            if instances.is_empty() {
                missing.push(format!("{message}: none"));
            }
            for field in fields {
                let has = |instance: &Instance| instance.contains_key(&field.number);
                if !instances.iter().any(has) {
                    missing.push(format!("{message}.{}", field.name));
                }
                if field.label == "optional " && instances.iter().all(has) {
                    missing.push(format!("{message} without {}", field.name));
                }
            }
        }
        for (name, numbers) in within(&schema.enums, package) {
            let found = self.enums.get(name).cloned().unwrap_or_default();
            let not_found = numbers.iter().filter(|(number, _)| !found.contains(number));
            missing.extend(not_found.map(|(_, value)| format!("{name}: {value}")));
        }
        missing
    }

    /// Pairs of fields that stand the same way in every message.
    pub(super) fn alike(&self, schema: &Schema, package: &str) -> Vec<String> {
        let mut alike = Vec::new();
        for (message, fields) in within(&schema.messages, package) {
            let instances = self.messages.get(message).map(Vec::as_slice).unwrap_or_default();
            for (at, one) in fields.iter().enumerate() {
                for other in &fields[at + 1..] {
                    let same =
                        |found: &Instance| found.get(&one.number) == found.get(&other.number);
                    if instances.iter().all(same) {
                        alike.push(format!("{message}: {} and {}", one.name, other.name));
                    }
                }
            }
        }
        alike
    }
}

fn within<'a, T>(
    map: &'a BTreeMap<String, T>,
    package: &'a str,
) -> impl Iterator<Item = (&'a String, &'a T)> {
    map.iter().filter(move |(name, _)| name.starts_with(package))
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for at in 0.. {
        let (byte, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// Takes the bytes of a value off the front.
fn value(bytes: &mut &[u8], wire_type: u64) -> Vec<u8> {
    let before = *bytes;
    let len = match wire_type {
        0 => {
            let _number = varint(bytes);
            before.len() - bytes.len()
        }
        1 => 8,
        2 => {
            let len = usize::try_from(varint(bytes)).unwrap();
            let (value, rest) = bytes.split_at(len);
            *bytes = rest;
            return value.to_vec();
        }
        other => panic!("wire type {other}"),
    };
    let (value, rest) = before.split_at(len);
    *bytes = rest;
    value.to_vec()
}
