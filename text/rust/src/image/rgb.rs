// SPDX-License-Identifier: Apache-2.0
//! Every kind of colour that a decoder gives, as RGB of 8 bits. Of 16 bits the upper 8 are taken, and what is transparent
//! lies on white: both as Pillow does it, exactly.

use image::{DynamicImage, RgbImage};

use crate::error::{Code, Error, Result};

pub(super) fn on_white(picture: DynamicImage) -> Result<RgbImage> {
    use DynamicImage::*;
    let (width, height) = (picture.width(), picture.height());
    let rgb = match picture {
        ImageRgb8(pixels) => return Ok(pixels),
        ImageLuma8(pixels) => map(&pixels, |[l]: [u8; 1]| [l; 3]),
        ImageLumaA8(pixels) => map(&pixels, |[l, a]: [u8; 2]| blend([l; 3], a)),
        ImageRgba8(pixels) => map(&pixels, |[r, g, b, a]: [u8; 4]| blend([r, g, b], a)),
        ImageLuma16(pixels) => map(&pixels, |[l]: [u16; 1]| [upper(l); 3]),
        ImageLumaA16(pixels) => map(&pixels, |[l, a]: [u16; 2]| blend([upper(l); 3], upper(a))),
        ImageRgb16(pixels) => map(&pixels, |rgb: [u16; 3]| rgb.map(upper)),
        ImageRgba16(pixels) => map(&pixels, |[r, g, b, a]: [u16; 4]| blend([r, g, b].map(upper), upper(a))),
        _ => return Err(Error::new(Code::Internal, "a decoder gave floating-point pixels")),
    };
    RgbImage::from_raw(width, height, rgb).ok_or_else(|| Error::new(Code::Internal, "a decoder gave too few pixels"))
}

/// `samples`: `[pixels, N]`.
fn map<T: Copy, const N: usize>(samples: &[T], to_rgb: impl Fn([T; N]) -> [u8; 3]) -> Vec<u8> {
    let mut rgb = Vec::with_capacity(samples.len() / N * 3);
    for pixel in samples.chunks_exact(N) {
        rgb.extend_from_slice(&to_rgb(std::array::from_fn(|channel| pixel[channel])));
    }
    rgb
}

fn upper(sample: u16) -> u8 {
    (sample >> 8) as u8
}

/// Rounded to the nearest level.
fn blend(rgb: [u8; 3], alpha: u8) -> [u8; 3] {
    let alpha = u32::from(alpha);
    rgb.map(|level| ((u32::from(level) * alpha + 255 * (255 - alpha) + 127) / 255) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_transparent_lies_on_white() {
        assert_eq!(blend([0, 100, 255], 0), [255; 3]);
        assert_eq!(blend([0, 100, 255], 255), [0, 100, 255]);
        assert_eq!(blend([0, 100, 255], 51), [204, 224, 255]);
    }

    #[test]
    fn of_16_bits_the_upper_8_are_taken() {
        let grey = image::ImageBuffer::from_raw(2, 1, vec![0x12FFu16, 0xFF00]).unwrap();
        let rgb = on_white(DynamicImage::ImageLuma16(grey)).unwrap();
        assert_eq!(rgb.into_raw(), [0x12, 0x12, 0x12, 0xFF, 0xFF, 0xFF]);
    }
}
