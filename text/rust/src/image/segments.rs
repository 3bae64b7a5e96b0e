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
            b"PLTE" if size % 3 != 0 || size > 768 => return Err(format!("is corrupt: its palette has {size} bytes")),
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

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: &str = "is cut short";

    fn chunk(kind: &[u8], data: &[u8]) -> Vec<u8> {
        [&(data.len() as u32).to_be_bytes(), kind, data, &[0; 4]].concat()
    }

    #[test]
    fn a_png_ends_with_its_last_chunk_and_exif_may_stand_anywhere() {
        let parts =
            [vec![0; 8], chunk(b"IDAT", b"1"), chunk(b"eXIf", b"ab"), chunk(b"eXIf", b"c"), chunk(b"IEND", b"")];
        let file = parts.concat();
        assert_eq!(png(&file), Ok(Some(b"ab".as_slice())));
        assert_eq!(png(&[&file[..], b"more"].concat()), Ok(Some(b"ab".as_slice())));
        for size in 0..file.len() {
            assert_eq!(png(&file[..size]), Err(CUT.to_owned()), "{size}");
        }
    }

    #[test]
    fn a_png_has_a_palette_of_whole_colours() {
        for size in [1, 3, 4, 768, 769, 771] {
            let file = [vec![0; 8], chunk(b"PLTE", &vec![0; size]), chunk(b"IEND", b"")].concat();
            let refused = Err(format!("is corrupt: its palette has {size} bytes"));
            assert_eq!(png(&file), if matches!(size, 3 | 768) { Ok(None) } else { refused });
        }
    }

    #[test]
    fn a_jpeg_ends_with_its_marker_and_not_with_that_of_a_preview() {
        let head = b"\xFF\xD8\xFF\xE1\x00\x0CExif\0\0\xFF\xD9ab";
        let coded = b"\xFF\xDA\x00\x02coded\xFF\x00\xFF\xD3coded\xFF\xFF\xD9";
        let file = [&head[..], coded].concat();
        assert_eq!(jpeg(&file).map(Option::unwrap_or_default), Ok(b"\xFF\xD9ab".as_slice()));
        for size in 0..file.len() {
            assert_eq!(jpeg(&file[..size]), Err(CUT.to_owned()), "{size}");
        }
    }

    #[test]
    fn a_jpeg_has_few_scans() {
        let scans = |count| [b"\xFF\xD8".to_vec(), b"\xFF\xDA\x00\x02".repeat(count), b"\xFF\xD9".to_vec()].concat();
        assert_eq!(jpeg(&scans(MAX_JPEG_SCANS)), Ok(None));
        assert_eq!(jpeg(&scans(MAX_JPEG_SCANS + 1)), Err("has more than 64 scans".to_owned()));
        assert_eq!(jpeg(b"\xFF\xD8\xFF\xDA\x00\x01"), Err("is corrupt: a segment has no size".to_owned()));
    }

    #[test]
    fn a_webp_is_as_long_as_it_says() {
        let riff = |size: u32, rest: &[u8]| [b"RIFF".as_slice(), &size.to_le_bytes(), b"WEBP", rest].concat();
        let chunks = b"VP8 \x01\0\0\0a\0EXIF\x09\0\0\0Exif\0\0abc";
        let file = riff(4 + chunks.len() as u32, chunks);
        assert_eq!(webp(&file), Ok(Some(b"abc".as_slice())));
        assert_eq!(webp(&[&file[..], b"more"].concat()), Ok(Some(b"abc".as_slice())));
        for size in 0..file.len() {
            assert_eq!(webp(&file[..size]), Err(CUT.to_owned()), "{size}");
        }
        assert_eq!(webp(&riff(12, b"VP8 \xFF\xFF\xFF\xFF")), Err(CUT.to_owned()));
        assert_eq!(webp(&riff(3, b"")), Err("is corrupt: RIFF has no room for a picture".to_owned()));
    }

    #[test]
    fn of_a_gif_the_first_frame_is_whole() {
        let screen = b"GIF89a\x01\0\x01\0\x80\0\0abcdef";
        let frame = b"\x21\xF9\x01a\0\x2C\0\0\0\0\x01\0\x01\0\x80abcdef\x02\x01a\x02bc\0";
        let file = [&screen[..], frame].concat();
        assert_eq!(gif(&file), Ok(()));
        for size in 0..file.len() {
            assert_eq!(gif(&file[..size]), Err(CUT.to_owned()), "{size}");
        }
        assert_eq!(gif(&[&screen[..], b";"].concat()), Err("has no picture".to_owned()));
        assert_eq!(gif(&[&screen[..], b"a"].concat()), Err("is corrupt: a block begins with 97".to_owned()));
    }
}
