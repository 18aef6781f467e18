//! A native library with one tool, in Rust; see `treadle.h` for the interface.
//!
//!     rustc --edition 2021 --crate-type cdylib -O -o libwords.so words.rs

use std::ffi::{CStr, CString};
use std::os::raw::c_char;

const TOOLS: &str = r#"[{
    "name": "count_words",
    "description": "Count the words and the characters of a text.",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": false
    }
}]"#;

#[no_mangle]
pub extern "C" fn treadle_abi_version() -> u32 {
    1
}

#[no_mangle]
pub extern "C" fn treadle_tools() -> *mut c_char {
    given(TOOLS)
}

/// # Safety
/// The three texts end in a NUL byte, as `treadle.h` says.
#[no_mangle]
pub unsafe extern "C" fn treadle_call(
    name: *const c_char,
    arguments: *const c_char,
    _context: *const c_char,
) -> *mut c_char {
    let name = CStr::from_ptr(name).to_string_lossy();
    let arguments = CStr::from_ptr(arguments).to_string_lossy();
    if name != "count_words" {
        return given(r#"{"error": "There is no such tool."}"#);
    }
    let text = text_in(&arguments);
    let (words, characters) = (text.split_whitespace().count(), text.chars().count());
    given(&format!(r#"{{"result": {{"words": {words}, "characters": {characters}}}}}"#))
}

/// # Safety
/// The text is one that `treadle_tools` or `treadle_call` returned, and was not given back yet.
#[no_mangle]
pub unsafe extern "C" fn treadle_free(text: *mut c_char) {
    drop(CString::from_raw(text));
}

/// Hands a text over; `treadle_free` takes it back.
fn given(text: &str) -> *mut c_char {
    CString::new(text).expect("JSON has no NUL byte").into_raw()
}

/// Reads the value of `{"text": "..."}`. The schema allows nothing else, so no JSON crate is needed.
fn text_in(arguments: &str) -> String {
    let value = arguments.split_once(':').map_or("", |(_, value)| value).trim_start();
    let mut units: Vec<u16> = Vec::new();
    let mut rest = value.chars().skip(1);
    while let Some(found) = rest.next() {
        let plain = match found {
            '"' => break,
            '\\' => match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('u') => {
                    let digits: String = rest.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16).unwrap_or(0xfffd));
                    continue;
                }
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        units.extend(plain.encode_utf16(&mut [0; 2]).iter());
    }
    String::from_utf16_lossy(&units)
}
