//! Reads the output of `tshark -T pdml`: the fields of each packet, in order.

use std::net::Ipv6Addr;

/// One packet as tshark decodes it.
#[derive(Debug)]
pub(crate) struct Dissection {
    /// Names and shown values of the fields, in order. A field comes before its subfields.
    pub(crate) fields: Vec<(String, String)>,
}

impl Dissection {
    /// Returns all values of a field.
    pub(crate) fn shown(&self, name: &str) -> Vec<&str> {
        self.fields
            .iter()
            .filter(|(have, _)| have == name)
            .map(|(_, show)| show.as_str())
            .collect()
    }

    pub(crate) fn is_malformed(&self) -> bool {
        self.fields.iter().any(|(name, _)| name == "_ws.malformed")
    }
}

/// Returns all packets of a capture.
pub(crate) fn read(pdml: &str) -> Vec<Dissection> {
    pdml.split("<packet>")
        .skip(1)
        .map(|packet| Dissection {
            fields: packet
                .split('<')
                .filter(|tag| tag.starts_with("field ") || tag.starts_with("proto "))
                .filter_map(|tag| {
                    let name = attribute(tag, "name")?;
                    Some((name, attribute(tag, "show").unwrap_or_default()))
                })
                .collect(),
        })
        .collect()
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let from = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    let length = tag[from..].find('"')?;
    let mut text = tag[from..from + length].to_string();
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#x27;", "'"),
        ("&#39;", "'"),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ] {
        text = text.replace(entity, character);
    }
    Some(text)
}

/// Parses a number that tshark shows: decimal, hexadecimal or a truth value.
pub(crate) fn number(show: &str) -> Option<u64> {
    match show {
        "True" => Some(1),
        "False" => Some(0),
        _ => match show.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => show.parse().ok(),
        },
    }
}

/// Parses bytes that tshark shows: pairs of hexadecimal digits, or an IPv6 address.
pub(crate) fn octets(show: &str) -> Option<Vec<u64>> {
    if let Ok(address) = show.parse::<Ipv6Addr>() {
        return Some(address.octets().map(u64::from).to_vec());
    }
    show.split(':').map(|pair| u64::from_str_radix(pair, 16).ok()).collect()
}

#[test]
fn decodes_entities_of_packets() {
    let pdml = r#"<packet><proto name="a" show=""><field name="b" size="1" show="0x1f" value="1f"/>
        <field name="c" show="&lt;&amp;lt;&quot;"/></proto></packet>"#;
    let packets = read(pdml);
    assert_eq!(packets[0].shown("b"), ["0x1f"]);
    assert_eq!(packets[0].shown("c"), ["<&lt;\""]);
    assert_eq!(number("0x1f"), Some(31));
    assert_eq!(octets("0a:ff"), Some(vec![10, 255]));
    assert_eq!(octets("::1").map(|octets| octets.len()), Some(16));
}
