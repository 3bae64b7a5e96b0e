// SPDX-License-Identifier: Apache-2.0
//! Pictures: the bytes of a PNG, JPEG, WebP or GIF file to RGB of 8 bits, by the `image` crate.
//!
//! `segments` walks the file first: whether it is whole, and its EXIF metadata. `rgb` maps every kind of colour. Nothing
//! that grows with the picture is allocated before its size is checked.

mod rgb;
mod segments;

use std::io::{Cursor, ErrorKind};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};

use crate::error::{Error, Result};
use crate::limits::{IMAGE_DECODER_BYTES, MAX_IMAGE_SIDE};

/// Width and height, in pixels.
pub type Size = (u32, u32);

/// A picture as it is to be looked at.
pub struct Picture {
    /// After the EXIF orientation.
    pub size: Size,
    /// `[height, width, 3]`.
    pub rgb: Vec<u8>,
}

/// The size of the picture after its EXIF orientation; decodes no pixels.
pub fn read_size(file: &[u8], max_pixels: u64) -> Result<Size> {
    let opened = Opened::new(file, max_pixels)?;
    let (width, height) = opened.decoder.dimensions();
    Ok(match swaps_sides(opened.orientation) {
        true => (height, width),
        false => (width, height),
    })
}

/// Decodes the picture; of an animation the first frame.
pub fn decode(file: &[u8], max_pixels: u64) -> Result<Picture> {
    let Opened { name, mut decoder, orientation } = Opened::new(file, max_pixels)?;
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(decoder.total_bytes() + IMAGE_DECODER_BYTES);
    decoder.set_limits(limits).map_err(|error| refused(name, &error))?;
    let decoded = DynamicImage::from_decoder(decoder).map_err(|error| refused(name, &error))?;
    let mut picture = DynamicImage::ImageRgb8(rgb::on_white(decoded)?);
    picture.apply_orientation(orientation);
    let size = (picture.width(), picture.height());
    Ok(Picture { size, rgb: picture.into_rgb8().into_raw() })
}

/// A whole file of a known format, whose size is within the limits.
struct Opened<'a> {
    name: &'static str,
    decoder: Box<dyn ImageDecoder + 'a>,
    orientation: Orientation,
}

impl<'a> Opened<'a> {
    fn new(file: &'a [u8], max_pixels: u64) -> Result<Self> {
        let (format, name) = format_of(file)?;
        let exif =
            segments::whole(format, file).map_err(|what| Error::invalid(format!("is a {name} file that {what}")))?;
        let mut reader = ImageReader::with_format(Cursor::new(file), format);
        let mut limits = Limits::no_limits();
        limits.max_alloc = Some(IMAGE_DECODER_BYTES);
        reader.limits(limits);
        let decoder = reader.into_decoder().map_err(|error| refused(name, &error))?;
        check_size(decoder.dimensions(), max_pixels)?;
        let orientation = exif.and_then(Orientation::from_exif_chunk).unwrap_or(Orientation::NoTransforms);
        Ok(Self { name, decoder: Box::new(decoder), orientation })
    }
}

fn format_of(file: &[u8]) -> Result<(ImageFormat, &'static str)> {
    match image::guess_format(file) {
        Ok(ImageFormat::Png) => Ok((ImageFormat::Png, "PNG")),
        Ok(ImageFormat::Jpeg) => Ok((ImageFormat::Jpeg, "JPEG")),
        Ok(ImageFormat::WebP) => Ok((ImageFormat::WebP, "WebP")),
        Ok(ImageFormat::Gif) => Ok((ImageFormat::Gif, "GIF")),
        _ => Err(Error::invalid("is of no format that is read: PNG, JPEG, WebP, GIF")),
    }
}

fn check_size((width, height): Size, max_pixels: u64) -> Result<()> {
    if width == 0 || height == 0 {
        return Err(Error::invalid(format!("is {width} x {height} pixels; it has none")));
    }
    if width > MAX_IMAGE_SIDE || height > MAX_IMAGE_SIDE {
        return Err(Error::invalid(format!("is {width} x {height} pixels; limit of a side is {MAX_IMAGE_SIDE}")));
    }
    match u64::from(width) * u64::from(height) {
        pixels if pixels > max_pixels => {
            Err(Error::invalid(format!("is {width} x {height}, {pixels} pixels; limit is {max_pixels}")))
        }
        _ => Ok(()),
    }
}

fn swaps_sides(orientation: Orientation) -> bool {
    use Orientation::*;
    matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH)
}

/// The decoder's error in words of this library and, behind them, its own.
fn refused(name: &str, error: &ImageError) -> Error {
    let what = match error {
        ImageError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => "is cut short".to_owned(),
        ImageError::IoError(error) => format!("is corrupt: {error}"),
        ImageError::Limits(_) => format!("takes more memory to decode than its pixels and {IMAGE_DECODER_BYTES} bytes"),
        ImageError::Unsupported(error) => format!("has what is not supported: {error}"),
        error => format!("is corrupt: {error}"),
    };
    Error::invalid(format!("is a {name} file that {}", what.replace(char::is_control, " ")))
}
