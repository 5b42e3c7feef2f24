//! Properties of characters, from Unicode's data.

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{
        BidiControl, DefaultIgnorableCodePoint, Emoji, EmojiModifier, ExtendedPictographic, GeneralCategory,
        GeneralCategoryGroup, NoncharacterCodePoint, Script,
    },
};

/// Zero width non-joiner.
pub(super) const ZWNJ: char = '\u{200c}';
/// Zero width joiner.
pub(super) const ZWJ: char = '\u{200d}';
/// Variation selector 16: the character before it is an emoji.
pub(super) const VS16: char = '\u{fe0f}';
/// The box around a digit in an emoji.
pub(super) const KEYCAP: char = '\u{20e3}';

/// Characters that are drawn as nothing, without a property that says so: the blank pattern of Braille, the place of an
/// object, a note without a head.
const BLANK: [char; 3] = ['\u{2800}', '\u{fffc}', '\u{1d159}'];

/// Control, format, default-ignorable and bidirectional control characters, line separators, noncharacters; characters that
/// are not assigned or of private use, which a font may draw as anything; blanks.
pub(super) fn is_hidden(letter: char) -> bool {
    if letter.is_ascii() {
        return letter.is_ascii_control();
    }
    let separates = [GeneralCategory::LineSeparator, GeneralCategory::ParagraphSeparator];
    let hides = [GeneralCategory::Control, GeneralCategory::Format, GeneralCategory::PrivateUse];
    let category = category(letter);
    hides.contains(&category)
        || category == GeneralCategory::Unassigned && !is_pictograph(letter)
        || BLANK.contains(&letter)
        || separates.contains(&category)
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(letter)
        || CodePointSetData::new::<BidiControl>().contains(letter)
        || CodePointSetData::new::<NoncharacterCodePoint>().contains(letter)
}

/// A combining mark.
pub(super) fn is_mark(letter: char) -> bool {
    !letter.is_ascii() && GeneralCategoryGroup::Mark.contains(category(letter))
}

/// A letter of a script without case. Joiners have a meaning only in such scripts.
pub(super) fn is_uncased_letter(letter: char) -> bool {
    category(letter) == GeneralCategory::OtherLetter
}

/// A script in which joiners change the shape of letters.
pub(super) fn has_joiners(script: Script) -> bool {
    const JOINING: [Script; 26] = [
        Script::Adlam,
        Script::Arabic,
        Script::Balinese,
        Script::Bengali,
        Script::Chakma,
        Script::Devanagari,
        Script::Grantha,
        Script::Gujarati,
        Script::Gurmukhi,
        Script::Javanese,
        Script::Kannada,
        Script::Khmer,
        Script::Malayalam,
        Script::Mandaic,
        Script::MeeteiMayek,
        Script::Mongolian,
        Script::Myanmar,
        Script::Newa,
        Script::Nko,
        Script::Oriya,
        Script::Sinhala,
        Script::Sundanese,
        Script::Syriac,
        Script::Tamil,
        Script::Telugu,
        Script::Tibetan,
    ];
    JOINING.contains(&script)
}

/// The script of a character; `None` if it belongs to several.
pub(super) fn script(letter: char) -> Option<Script> {
    let script = CodePointMapData::<Script>::new().get(letter);
    (![Script::Common, Script::Inherited, Script::Unknown].contains(&script)).then_some(script)
}

/// A character that can be shown as an emoji. Digits are some.
pub(super) fn is_emoji(letter: char) -> bool {
    CodePointSetData::new::<Emoji>().contains(letter)
}

/// An emoji that can be joined with others.
pub(super) fn is_pictograph(letter: char) -> bool {
    CodePointSetData::new::<ExtendedPictographic>().contains(letter)
}

/// The tone of an emoji's skin.
pub(super) fn is_emoji_modifier(letter: char) -> bool {
    CodePointSetData::new::<EmojiModifier>().contains(letter)
}

fn category(letter: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(letter)
}
