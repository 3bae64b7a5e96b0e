// SPDX-License-Identifier: Apache-2.0
//! What the files are made of: chunks (PNG, WebP), segments and scans (JPEG), blocks (GIF). A file that ends before its
//! picture does is refused here, where the decoders would fill the rest with grey or believe the size that a chunk states.
//!
//! Sources: PNG (W3C, third edition) 5.3; ITU-T T.81 annex B; RFC 9649; GIF89a.

use image::ImageFormat;

use crate::limits::MAX_JPEG_SCANS;

/// The EXIF metadata, a TIFF file, of a file that is whole; else what is wrong with it, after "PNG file".
pub(super) fn whole(format: ImageFormat, file: &[u8]) -> Result<Option<&[u8]>, String> {
    match format {
        ImageFormat::Png => png(file),
        ImageFormat::Jpeg => jpeg(file),
        ImageFormat::WebP => webp(file),
        ImageFormat::Gif => gif(file).map(|()| None),
        _ => Ok(None),
    }
}

fn cut_short() -> String {
    "is cut short".to_owned()
}

/// Takes from the front of a file.
struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.take(1).map(|byte| byte[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N).map(|bytes| std::array::from_fn(|at| bytes[at]))
    }
}

fn png(file: &[u8]) -> Result<Option<&[u8]>, String> {
    let mut bytes = Bytes { rest: file };
    bytes.take(8)?; // the signature
    let mut exif = None;
    loop {
        let size = u32::from_be_bytes(bytes.array()?);
        let kind: [u8; 4] = bytes.array()?;
        let data = bytes.take(size as usize)?;
        bytes.take(4)?; // the checksum
        match &kind {
            b"eXIf" => exif = exif.or(Some(data)),
            b"IEND" => return Ok(exif),
            _ => (),
        }
    }
}

fn webp(file: &[u8]) -> Result<Option<&[u8]>, String> {
    let mut bytes = Bytes { rest: file };
    bytes.take(4)?; // RIFF
    let size = u32::from_le_bytes(bytes.array()?);
    let mut bytes = Bytes { rest: bytes.take(size as usize)? };
    bytes.take(4).map_err(|_| "is corrupt: RIFF has no room for a picture".to_owned())?; // WEBP
    let mut exif = None;
    while bytes.rest.len() >= 8 {
        let kind: [u8; 4] = bytes.array()?;
        let size = u32::from_le_bytes(bytes.array()?) as usize;
        let data = bytes.take(size)?;
        let _ = bytes.take(size % 2); // padding, which some files lack at the end
        if &kind == b"EXIF" {
            exif = exif.or(Some(data.strip_prefix(b"Exif\0\0").unwrap_or(data)));
        }
    }
    Ok(exif)
}

fn jpeg(file: &[u8]) -> Result<Option<&[u8]>, String> {
    const EOI: u8 = 0xD9;
    const SOS: u8 = 0xDA;
    const APP1: u8 = 0xE1;
    let mut bytes = Bytes { rest: file };
    let mut exif = None;
    let mut scans = 0;
    loop {
        match next_marker(&mut bytes)? {
            EOI => return Ok(exif),
            0x01 | 0xD0..=0xD8 => continue, // without a segment
            marker => {
                let size = usize::from(u16::from_be_bytes(bytes.array()?));
                let size = size.checked_sub(2).ok_or("is corrupt: a segment has no size")?;
                let data = bytes.take(size)?;
                scans += usize::from(marker == SOS);
                if marker == APP1 {
                    exif = exif.or(data.strip_prefix(b"Exif\0\0"));
                }
            }
        }
        if scans > MAX_JPEG_SCANS {
            return Err(format!("has more than {MAX_JPEG_SCANS} scans"));
        }
    }
}

/// The next byte that is not 0 or 0xFF behind a 0xFF: coded data, in which 0 follows each 0xFF, is passed over.
fn next_marker(bytes: &mut Bytes) -> Result<u8, String> {
    loop {
        let at = bytes.rest.iter().position(|byte| *byte == 0xFF).ok_or_else(cut_short)?;
        bytes.rest = &bytes.rest[at..];
        let fill = bytes.rest.iter().take_while(|byte| **byte == 0xFF).count();
        bytes.take(fill)?;
        match bytes.byte()? {
            0 => continue,
            marker => return Ok(marker),
        }
    }
}

/// Up to the end of the first frame.
fn gif(file: &[u8]) -> Result<(), String> {
    let table = |flags: u8| if flags & 0x80 != 0 { 3 << ((flags & 7) + 1) } else { 0 };
    let mut bytes = Bytes { rest: file };
    bytes.take(10)?; // the signature, the version, the size
    let flags = bytes.byte()?;
    bytes.take(2 + table(flags))?;
    loop {
        match bytes.byte()? {
            0x21 => {
                bytes.take(1)?; // what the extension is
                sub_blocks(&mut bytes)?;
            }
            0x2C => {
                bytes.take(8)?; // place and size
                let flags = bytes.byte()?;
                bytes.take(table(flags) + 1)?; // and the bits of the first code
                return sub_blocks(&mut bytes);
            }
            0x3B => return Err("has no picture".to_owned()),
            kind => return Err(format!("is corrupt: a block begins with {kind}")),
        }
    }
}

fn sub_blocks(bytes: &mut Bytes) -> Result<(), String> {
    loop {
        match bytes.byte()? {
            0 => return Ok(()),
            size => bytes.take(usize::from(size))?,
        };
    }
}
