//! Known values of one attribute, by field and element.

use verbatim_wire::{AnyAttribute, AttributeId, Field, Mad, PortInfo, Style};

use super::known::Known;
use crate::Rule;

/// Possible content of an attribute.
#[derive(Clone, Debug)]
pub(super) struct Image {
    fields: &'static [Field],
    /// Known values of all elements, field by field. Empty while every element is unknown, to save memory: a test
    /// may request tens of thousands of table parts that the device lacks.
    known: Vec<Known>,
    /// Number of the exchange that showed the attribute last, or 0.
    pub(super) shown_in: u32,
    /// The Set requests since the exchange `shown_in` that must not have changed the attribute, because their M_Key
    /// was wrong or their value illegal.
    pub(super) denied: Vec<Denied>,
    /// Whether a Set has succeeded since the exchange `shown_in`.
    pub(super) is_set: bool,
    /// Whether no other subnet manager could Set a field at the time of the exchange `shown_in`.
    pub(super) was_ours: bool,
}

/// Set that the port must not obey.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Denied {
    /// Number of the Set's exchange.
    pub(super) exchange: u32,
    /// Rule that forbids the change.
    pub(super) rule: Rule,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub(super) field: &'static Field,
    pub(super) index: usize,
    place: usize,
}

impl Element {
    /// Returns the element's bits from the bytes of the attribute.
    pub(super) fn bits(&self, bytes: &[u8]) -> u64 {
        self.field.bits(bytes, self.index)
    }

    pub(super) fn name(&self) -> String {
        if self.field.count == 1 {
            self.field.name.into()
        } else {
            format!("{} {}", self.field.name, self.index)
        }
    }

    /// Formats a value of the element.
    pub(super) fn words(&self, value: u64) -> String {
        if self.field.count == 1 {
            self.field.words_of(value)
        } else {
            format!("{value:#x}")
        }
    }
}

impl Image {
    /// Returns an image of the MAD's attribute in which every value is unknown; `None` if the attribute's layout is
    /// unknown.
    pub(super) fn of(mad: &Mad) -> Option<Self> {
        Some(Self {
            fields: AnyAttribute::of(mad)?.fields(),
            known: Vec::new(),
            shown_in: 0,
            denied: Vec::new(),
            is_set: false,
            was_ours: false,
        })
    }

    /// Returns the elements in wire order, without reserved elements.
    pub(super) fn elements(&self) -> impl Iterator<Item = Element> + use<> {
        let mut place = 0;
        let fields = self.fields.iter().flat_map(move |field| {
            let first = place;
            place += field.count;
            (0..field.count).map(move |index| Element {
                field,
                index,
                place: first + index,
            })
        });
        fields.filter(|element| element.field.style != Style::Reserved)
    }

    pub(super) fn known(&self, element: Element) -> &Known {
        static ANY: Known = Known::Any;
        self.known.get(element.place).unwrap_or(&ANY)
    }

    /// Marks an element as unknown.
    pub(super) fn forget(&mut self, element: Element) {
        if let Some(known) = self.known.get_mut(element.place) {
            *known = Known::Any;
        }
    }

    /// Adds a possible value to an element.
    pub(super) fn or(&mut self, element: Element, value: u64) {
        if let Some(known) = self.known.get_mut(element.place) {
            known.or(value);
        }
    }

    /// Returns mutable access to the known values of an element.
    pub(super) fn known_mut(&mut self, element: Element) -> &mut Known {
        if self.known.is_empty() {
            let elements = self.fields.iter().map(|field| field.count).sum();
            self.known = vec![Known::Any; elements];
        }
        &mut self.known[element.place]
    }

    /// Returns the known values of a field with one element; `Any` if the attribute lacks the field.
    pub(super) fn field(&self, name: &str) -> Known {
        let element = self.elements().find(|element| element.field.name == name);
        element.map_or(Known::Any, |element| self.known(element).clone())
    }

    /// Returns mutable access to the known values of a field with one element.
    pub(super) fn field_mut(&mut self, name: &str) -> Option<&mut Known> {
        let element = self.elements().find(|element| element.field.name == name)?;
        Some(self.known_mut(element))
    }
}

/// Returns whether the device, its link or other nodes change a field, so that no rule covers its value.
pub(super) fn moves(simulated: bool, attribute: AttributeId, name: &str) -> bool {
    // In simulation the device gets only SMPs, which cause no P_Key or Q_Key violations. In real time, packets of
    // other nodes may cause them.
    let by_others = matches!(name, "P_KeyViolations" | "Q_KeyViolations");
    attribute == AttributeId::PORT_INFO
        && !(by_others && simulated)
        && (PortInfo::MOVED_BY_PORT.contains(&name) || PortInfo::VIOLATIONS.contains(&name))
}

#[cfg(test)]
mod tests {
    use verbatim_wire::Method;

    use super::*;

    #[test]
    fn unknown_image_allocates_no_elements() {
        let mad = Mad::lid_routed(Method::SET, AttributeId::VL_ARBITRATION, 0);
        let mut image = Image::of(&mad).unwrap();
        for element in image.elements() {
            image.or(element, 3);
            image.forget(element);
            assert_eq!(image.known(element), &Known::Any);
        }
        assert_eq!(image.known.capacity(), 0);
        let first = image.elements().next().unwrap();
        *image.known_mut(first) = Known::is(1);
        image.or(first, 2);
        assert_eq!(image.known(first).all(), Some(&[1, 2][..]));
        image.forget(first);
        assert_eq!(image.known(first), &Known::Any);
    }
}
