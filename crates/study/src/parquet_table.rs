//! Encodes a table as a Parquet file. [`check_build`] says whether this build has the feature `parquet`, which [`encode`]
//! needs.

use std::path::Path;

use grounds::job::Failure;

/// The cells of one column, by type.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Texts: `required binary NAME (UTF8)` in the schema.
    Texts(Vec<String>),
    /// Unsigned numbers: `required int64 NAME (INTEGER(64, false))`.
    Numbers(Vec<u64>),
    /// Numbers with a point: `required double NAME`.
    Values(Vec<f64>),
    /// Numbers with a point, some of which may be missing: `optional double NAME`.
    Optional(Vec<Option<f64>>),
}

/// Checks that this build can read and write Parquet files. The message of the error names `path`.
///
/// # Errors
/// When this crate was built without its feature `parquet`.
pub fn check_build(path: &Path) -> Result<(), Failure> {
    if cfg!(feature = "parquet") {
        return Ok(());
    }
    Err(Failure(format!(
        "{}: this `highwater` was built without the feature `parquet`, which this needs: build it with `--features parquet`",
        path.display()
    )))
}

/// Returns a table encoded as the bytes of a Parquet file. `schema` names its columns, in Parquet's own form; `cells`
/// returns the cells of the column with a number in the schema. The texts `footer` are the file's metadata, by name.
///
/// # Panics
/// When the schema is none, or the cells of a column have another type than the schema says.
#[cfg(feature = "parquet")]
#[must_use]
pub fn encode(schema: &str, cells: impl Fn(usize) -> Cells, footer: Vec<(String, String)>) -> Vec<u8> {
    use parquet::{
        basic::Compression,
        data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type},
        file::{
            metadata::KeyValue,
            properties::{EnabledStatistics, WriterProperties},
            writer::SerializedFileWriter,
        },
        schema::parser::parse_message_type,
    };
    use std::sync::Arc;

    let footer: Vec<KeyValue> = footer.into_iter().map(|(key, value)| KeyValue { key, value: Some(value) }).collect();
    let schema = Arc::new(parse_message_type(schema).expect("a fixed schema"));
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_created_by(concat!("highwater ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata((!footer.is_empty()).then_some(footer))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .build();
    let mut bytes = Vec::new();
    let columns = schema.get_fields().len();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).expect("memory takes all");
    let mut group = file.next_row_group().expect("memory takes all");
    for column in 0..columns {
        let mut writer = group.next_column().expect("memory takes all").expect("the schema has that many");
        let written = match cells(column) {
            Cells::Texts(cells) => {
                let cells: Vec<ByteArray> = cells.into_iter().map(|text| text.into_bytes().into()).collect();
                writer.typed::<ByteArrayType>().write_batch(&cells, None, None)
            }
            Cells::Numbers(cells) => {
                // The format has only signed numbers: the bits of the unsigned number are kept.
                let cells: Vec<i64> = cells.into_iter().map(|number| number as i64).collect();
                writer.typed::<Int64Type>().write_batch(&cells, None, None)
            }
            Cells::Values(cells) => writer.typed::<DoubleType>().write_batch(&cells, None, None),
            Cells::Optional(cells) => {
                let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
                let cells: Vec<f64> = cells.into_iter().flatten().collect();
                writer.typed::<DoubleType>().write_batch(&cells, Some(&levels), None)
            }
        };
        written.expect("memory takes all");
        writer.close().expect("memory takes all");
    }
    group.close().expect("memory takes all");
    file.close().expect("memory takes all");
    bytes
}

/// Takes the place of the function in a build without the feature `parquet`.
///
/// # Panics
/// Always: [`check_build`] has refused before.
#[cfg(not(feature = "parquet"))]
#[must_use]
pub fn encode(_: &str, _: impl Fn(usize) -> Cells, _: Vec<(String, String)>) -> Vec<u8> {
    unreachable!("a build without the feature `parquet` writes no Parquet file")
}
