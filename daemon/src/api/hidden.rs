//! Messages without M_Keys, for callers below operator. The descriptors of the API name the texts of a message, so that
//! every text is searched, also in fields of the future.

use std::collections::HashMap;
use std::sync::LazyLock;

use prost::Message;
use prost::bytes::Buf as _;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use verbatim_proto::DESCRIPTORS;
use verbatim_record::secrets::Secrets;

/// The fields of each message of the API, by the message's full name with a dot before it.
static TYPES: LazyLock<HashMap<String, Vec<FieldDescriptorProto>>> = LazyLock::new(|| {
    let mut types = HashMap::new();
    // The descriptors are part of the program, and reflection decodes them at the start.
    for file in FileDescriptorSet::decode(DESCRIPTORS).unwrap_or_default().file {
        let package = format!(".{}", file.package());
        file.message_type
            .into_iter()
            .for_each(|of| add(&mut types, &package, of));
    }
    types
});

fn add(types: &mut HashMap<String, Vec<FieldDescriptorProto>>, within: &str, of: DescriptorProto) {
    let name = format!("{within}.{}", of.name());
    of.nested_type.into_iter().for_each(|nested| add(types, &name, nested));
    types.insert(name, of.field);
}

/// Returns a message of the type `verbatim.v1.NAME` without M_Keys. The keys keep the numbers that they have in
/// `secrets`, and new keys are added.
pub(super) fn hide<M: Message + Default>(name: &str, message: &M, secrets: &mut Secrets) -> M {
    let (name, bytes) = (format!(".verbatim.v1.{name}"), message.encode_to_vec());
    learn(&name, &bytes, secrets);
    let mut shown = Vec::with_capacity(bytes.len());
    each_field(&name, &bytes, &mut |field| write(&field, &mut shown, secrets));
    // Never an error: these are the bytes of a message, with other texts.
    M::decode(&shown[..]).unwrap_or_default()
}

/// A field of an encoded message.
struct Field<'b> {
    number: u32,
    /// All bytes of the field.
    whole: &'b [u8],
    content: Content<'b>,
}

enum Content<'b> {
    Text(&'b str),
    Message(&'b str, &'b [u8]),
    Other,
}

fn each_field<'b>(name: &'b str, bytes: &'b [u8], act: &mut dyn FnMut(Field<'b>)) {
    let types = TYPES.get(name).map_or(&[][..], |fields| fields);
    let mut rest = bytes;
    while !rest.is_empty() {
        let start = rest;
        let Ok((number, wire)) = decode_key(&mut rest) else {
            return;
        };
        let length = match wire {
            WireType::Varint => decode_varint(&mut rest).map(|_| 0),
            WireType::SixtyFourBit => Ok(8),
            WireType::ThirtyTwoBit => Ok(4),
            WireType::LengthDelimited => decode_varint(&mut rest),
            WireType::StartGroup | WireType::EndGroup => return,
        };
        let Some(length) = length.ok().and_then(|length| usize::try_from(length).ok()) else {
            return;
        };
        let Some(value) = rest.get(..length) else { return };
        rest.advance(length);
        let of = types.iter().find(|field| field.number().cast_unsigned() == number);
        let content = match (of.map(FieldDescriptorProto::r#type), of) {
            (Some(Type::String), _) => std::str::from_utf8(value).map_or(Content::Other, Content::Text),
            (Some(Type::Message), Some(of)) => Content::Message(static_name(of), value),
            _ => Content::Other,
        };
        let whole = &start[..start.len() - rest.len()];
        act(Field { number, whole, content });
    }
}

/// Returns the name of the message in a field. All descriptors in [`TYPES`] live as long as the program.
fn static_name(of: &'static FieldDescriptorProto) -> &'static str {
    of.type_name()
}

fn learn(name: &str, bytes: &[u8], secrets: &mut Secrets) {
    let mut texts = Vec::new();
    each_field(name, bytes, &mut |field| match field.content {
        Content::Text(text) => texts.push(text),
        Content::Message(name, bytes) => learn(name, bytes, secrets),
        Content::Other => {}
    });
    secrets.learn_texts(texts);
}

fn write(field: &Field<'_>, shown: &mut Vec<u8>, secrets: &Secrets) {
    let value = match field.content {
        Content::Text(text) => secrets.hide(text).into_bytes(),
        Content::Message(name, bytes) => {
            let mut value = Vec::with_capacity(bytes.len());
            each_field(name, bytes, &mut |field| write(&field, &mut value, secrets));
            value
        }
        Content::Other => return shown.extend_from_slice(field.whole),
    };
    encode_key(field.number, WireType::LengthDelimited, shown);
    encode_varint(value.len() as u64, shown);
    shown.extend_from_slice(&value);
}

#[cfg(test)]
mod tests {
    use verbatim_proto::v1::{Check, Run, RunSpec, Verdict};

    use super::*;

    #[test]
    fn hides_keys_in_every_text_of_a_message() {
        let check = |about: &str, seen: &str| Check {
            about: about.into(),
            expected: "0x0000000000000000".into(),
            seen: seen.into(),
            places: vec![7, u64::MAX],
            ..Check::default()
        };
        let run = |key: &str, named: &str| Run {
            reason: format!("no answer with any M_Key ({key})"),
            verdicts: vec![Verdict {
                findings: vec![check("PortGUID", "0x0002c90300000001"), check("PortInfo", key)],
                reason: format!("M_Key {named}"),
                ..Verdict::default()
            }],
            spec: Some(RunSpec {
                parameters: [(key.to_string(), 5)].into(),
                seed: 9,
                ..RunSpec::default()
            }),
            queue_place: 3,
            ..Run::default()
        };
        let mut secrets = Secrets::default();
        let shown = hide("Run", &run("0x83eef1b574723f2b", "0x83eef1b574723f2b"), &mut secrets);
        assert_eq!(shown, run("M_Key #1", "#1"));
        let other = Run {
            reason: "M_Key 0x1111111111111111, 0x83eef1b574723f2b".into(),
            ..Run::default()
        };
        assert_eq!(hide("Run", &other, &mut secrets).reason, "M_Key #2, M_Key #1");
        // A key that stands only within the message.
        let inner = Run {
            verdicts: vec![Verdict {
                findings: vec![check("M_Key", "0x2222222222222222")],
                ..Verdict::default()
            }],
            ..Run::default()
        };
        assert_eq!(
            hide("Run", &inner, &mut secrets).verdicts[0].findings[0].seen,
            "M_Key #3"
        );
    }
}
