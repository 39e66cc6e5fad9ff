//! Members of JSON objects that many commands write: places, modules and limits.

use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;

use trommel_profile::limits::Limits;
use trommel_profile::{Module, Profile};
use trommel_symbol::Location;
use trommel_tuple::Place;

use super::view::View;
use crate::json::Json;

/// The members `places` and `texts` of documents that have all places in one table: what the numbers of places and texts mean.
pub(crate) fn tables<W: Write>(json: &mut Json<W>, view: &mut View<'_>) -> io::Result<()> {
    let Some(places) = view.places.take() else {
        return Ok(());
    };
    let mut texts: HashMap<Rc<str>, u64> = HashMap::new();
    let mut order: Vec<Rc<str>> = Vec::new();
    let mut number = |text: &Rc<str>| -> u64 {
        let next = order.len() as u64;
        *texts.entry(Rc::clone(text)).or_insert_with(|| {
            order.push(Rc::clone(text));
            next
        })
    };
    json.member_array("places")?;
    for place in places.all {
        let location = view.locate(place);
        json.object()?;
        json.number("module", place.module().0)?;
        json.number("vaddr", place.vaddr().0)?;
        for (name, text) in [("function", &location.function), ("file", &location.file)] {
            if let Some(text) = text {
                json.number(name, number(text))?;
            }
        }
        if let Some(line) = location.line {
            json.number("line", line)?;
        }
        if !location.inlined.is_empty() {
            let inlined = location.inlined.iter();
            let numbers: Vec<u64> = inlined.map(|frame| number(&frame.function)).collect();
            json.numbers("inlined", &numbers)?;
        }
        json.end_object()?;
    }
    json.end_array()?;
    json.texts("texts", order)
}

/// The limits of a count, where there are any.
pub(super) fn limits<W: Write>(json: &mut Json<W>, limits: Option<Limits>) -> io::Result<()> {
    if let Some(limits) = limits {
        json.number("low", limits.low.floor() as u64)?;
        json.number("high", limits.high.ceil() as u64)?;
    }
    Ok(())
}

/// The modules of a profile in the order of their numbers, each with its path.
pub(crate) fn modules<W: Write>(json: &mut Json<W>, profile: &Profile) -> io::Result<()> {
    let mut all: Vec<&Module> = profile.modules.iter().collect();
    all.sort_by_key(|module| module.id.0);
    json.member_array("modules")?;
    for module in all {
        json.object()?;
        json.number("id", module.id.0)?;
        json.text("path", &String::from_utf8_lossy(&module.path))?;
        json.end_object()?;
    }
    json.end_array()
}

/// The members of an object that is a place: where it is, and its names.
pub(crate) fn names<W: Write>(
    json: &mut Json<W>,
    place: Place,
    location: &Location,
) -> io::Result<()> {
    json.number("module", place.module().0)?;
    json.number("vaddr", place.vaddr().0)?;
    json.optional_text("function", location.function.as_deref())?;
    json.optional_text("file", location.file.as_deref())?;
    match location.line {
        Some(line) => json.number("line", line),
        None => json.null("line"),
    }
}

/// A member that is a place, with its names.
pub(crate) fn place<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    name: &str,
    place: Place,
) -> io::Result<()> {
    if let Some(places) = &mut view.places {
        return json.number(name, places.number(place));
    }
    let location = view.locate(place);
    json.member_object(name)?;
    names(json, place, &location)?;
    if !location.inlined.is_empty() {
        json.texts(
            "inlined",
            location.inlined.iter().map(|frame| &frame.function),
        )?;
    }
    json.end_object()
}
