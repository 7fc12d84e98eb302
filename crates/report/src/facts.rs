//! What is known about a collision, in words.

use crate::names;
use crate::numbers::counted;
use redhanded_model::{
    Certainty, Covered, Declared, Doubt, Fact, Form, Known, Marking, Provenance, SourceEvidence,
};

/// How certain a fact is and where it comes from.
pub(crate) fn basis(known: &Known) -> String {
    let certainty = match known.certainty {
        Certainty::Certain => "certain",
        Certainty::Likely => "likely",
        Certainty::Possible => "possible",
    };
    let from = match known.from {
        Provenance::Instruction => "the instruction",
        Provenance::Code => "the code around it",
        Provenance::Source => "debug information and source",
        Provenance::Stack => "the stack",
        Provenance::Names => "names",
        Provenance::Mappings => "the list of mappings",
    };
    format!("{certainty}, from {from}")
}

/// A fact in words.
pub(crate) fn fact(fact: &Fact) -> String {
    match fact {
        Fact::Locked => "a locked instruction".to_owned(),
        Fact::Form { form } => match form {
            Form::Move => "a move",
            Form::Operation => "an operation on the value in memory",
            Form::Vector => "a move of a vector of 16 bytes",
            Form::Wide => "an access of more bytes than can be atomic",
            Form::Repeated => "a repeated string instruction",
            Form::Unknown => "an instruction of unknown form",
        }
        .to_owned(),
        Fact::Natural { natural: true } => "aligned to its size".to_owned(),
        Fact::Natural { natural: false } => {
            "not aligned to its size, or not of 1, 2, 4 or 8 bytes".to_owned()
        }
        Fact::AtomicVector => "aligned, which makes it atomic on this processor".to_owned(),
        Fact::ChangesNothing { known: true } => "it leaves the bytes as they are".to_owned(),
        Fact::ChangesNothing { known: false } => "it may leave the bytes as they are".to_owned(),
        Fact::HalfOfUpdate => "the load or the store of an update".to_owned(),
        Fact::Source { source } => in_source(source),
        Fact::MemoryFunction { name } => format!("made by {name}"),
        Fact::Unmapped => "they were unmapped".to_owned(),
        Fact::MaySearch => "made by a nameless function that looks like a search".to_owned(),
        Fact::SystemCall { name } => format!("made by the kernel in {name}(2)"),
        Fact::InSource { reached: true } => "the source accesses these bytes here".to_owned(),
        Fact::InSource { reached: false } => {
            "the source does not access these bytes here".to_owned()
        }
        Fact::RestartableSequence => "in a restartable sequence".to_owned(),
        Fact::SequenceSection => "in a section of a sequence counter".to_owned(),
        Fact::CallersUnknown => "its callers are not known".to_owned(),
        Fact::KernelWithoutDebugInformation => "in a kernel without debug information".to_owned(),
        Fact::Allocator {
            name, frees: true, ..
        } => format!("made by {name}, which gives memory back"),
        Fact::Allocator {
            name,
            hands_out: true,
            ..
        } => format!("made by {name}, which is about to hand the block out"),
        Fact::Allocator { name, .. } => format!("made by {name}, an allocator"),
        Fact::Declared { part, as_what } => match as_what {
            Declared::Atomic => format!("{part} is declared atomic"),
            Declared::Volatile => format!("{part} is declared volatile"),
            Declared::Guard => format!("{part} is a guard of a static"),
        },
        Fact::Special { reason } => format!("special: {reason}"),
        Fact::Other => "what another version of Redhanded found".to_owned(),
    }
}

fn in_source(source: &SourceEvidence) -> String {
    let mut text = match &source.marking {
        Marking::Atomic { word } => format!("atomic in the source, by {word}"),
        Marking::Volatile { word } => format!("volatile in the source, by {word}"),
        Marking::Plain => "plain in the source".to_owned(),
        Marking::Unknown { why } => format!("the source does not tell: {}", doubt(why)),
    };
    if let Some(expression) = &source.expression {
        let place = names::place(Some(&expression.file), Some(expression.line));
        text.push_str(&format!("; {}", expression.text));
        if let Some(place) = place {
            text.push_str(&format!(" at {place}"));
        }
    }
    if let Some(declared) = &source.declared {
        text.push_str(&format!(", of type {declared}"));
    }
    if let Some(Covered { start, len }) = source.covers {
        let bytes = counted(len.into(), "byte", "bytes");
        text.push_str(&format!(", which covers {bytes} from +{start}"));
    }
    text
}

fn doubt(why: &Doubt) -> String {
    match why {
        Doubt::NoDebugInformation => "there is no debug information".to_owned(),
        Doubt::NoLine => "the code has no line".to_owned(),
        Doubt::NoSource => "it is not at hand".to_owned(),
        Doubt::SourceChanged => "it is not what was compiled".to_owned(),
        Doubt::Displaced => {
            "the function is not where it was compiled, or not understood".to_owned()
        }
        Doubt::UnknownName(name) => format!("{name} is not known"),
        Doubt::Split => "its debug information is in another file, which is not read".to_owned(),
        Doubt::InlineAssembly => "inline assembly".to_owned(),
        Doubt::Ambiguous => "several expressions could be meant".to_owned(),
        Doubt::NoExpression => "no expression fits the instruction".to_owned(),
        Doubt::UnknownType => "the type is not known".to_owned(),
        Doubt::Wider => "the access is wider than the expression".to_owned(),
        Doubt::Conditional => {
            "the access takes in what the source reads on a condition only".to_owned()
        }
        Doubt::Speculative => "the instruction reads whether or not the source does".to_owned(),
        Doubt::Folded => {
            "the compiler may have folded an atomic load into this instruction".to_owned()
        }
        Doubt::Language => "its language is not read".to_owned(),
        Doubt::Go => "Go's atomic loads leave no trace".to_owned(),
    }
}
