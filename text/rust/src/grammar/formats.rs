// SPDX-License-Identifier: Apache-2.0
//! Values of the keyword `format` that are enforced, as regular expressions of whole strings.
//! Sources: RFC 3339 (dates, durations), 4122 (uuid), 5321 (email), 1123 (hostname), 4291 (ipv6).

const MONTHS: &str = "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|\
                      02-(?:0[1-9]|1[0-9]|2[0-8]))";
/// Years from 1 on: 0000 is no year in Python and in most calendars.
const YEAR: &str = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})";
const LEAP_YEAR: &str = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
const CLOCK: &str = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?";
const ZONE: &str = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const OCTET: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
/// Four labels of at most 60 characters stay below the 253 of a name.
const HOST: &str =
    "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,58}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,58}[a-zA-Z0-9])?){0,3}";
/// Three atoms of at most 20 characters stay below the 64 of a local part.
const ATOM: &str = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,20}";

/// The expression; none: a format that is an annotation.
pub(super) fn regex(name: &str) -> Option<String> {
    let date = format!("(?:{YEAR}-{MONTHS}|{LEAP_YEAR}-02-29)");
    Some(match name {
        "date" => date,
        "time" => format!("{CLOCK}{ZONE}"),
        "date-time" => format!("{date}T{CLOCK}{ZONE}"),
        "duration" => duration(),
        "email" => format!("{ATOM}(?:\\.{ATOM}){{0,2}}@{HOST}"),
        "hostname" => HOST.into(),
        "ipv4" => format!("(?:{OCTET}\\.){{3}}{OCTET}"),
        "ipv6" => ipv6(),
        "uuid" => "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}".into(),
        _ => return None,
    })
}

fn duration() -> String {
    let time = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
    let day = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)";
    format!("P(?:{day}(?:{time})?|{time}|[0-9]+W)")
}

/// Eight groups, or fewer around one "::" that stands for at least one.
fn ipv6() -> String {
    const GROUP: &str = "[0-9a-fA-F]{1,4}";
    let mut forms = vec![format!("(?:{GROUP}:){{7}}{GROUP}"), format!("::(?:{GROUP}(?::{GROUP}){{0,6}})?")];
    for before in 1..=7 {
        let head = format!("{GROUP}(?::{GROUP}){{{}}}", before - 1);
        forms.push(match 7 - before {
            0 => format!("{head}::"),
            after => format!("{head}::(?:{GROUP}(?::{GROUP}){{0,{}}})?", after - 1),
        });
    }
    format!("(?:{})", forms.join("|"))
}
