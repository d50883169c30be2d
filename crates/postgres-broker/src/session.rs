//! One connection to PostgreSQL: the messages of the extended and the simple protocol, and how many
//! answers are still owed. A connection that owes none can be used again. Results come as text.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::{
    IsNull,
    message::{
        backend::{CommandCompleteBody, DataRowBody, ErrorResponseBody, Header, Message},
        frontend,
    },
};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, timeout},
};

use crate::{
    catalog::TypeCatalog,
    connect::DatabaseStream,
    fault::{BrokerFault, SessionFailure},
    limits,
    memory::{MemoryShare, OwnerMemory},
};

/// What ends and forgets all that a request may have left behind. Each is a message of its own,
/// because the second may not run in a transaction.
const RESET_TRANSACTION: &str = "ROLLBACK";
const RESET_SESSION: &str = "DISCARD ALL";

/// The tag of the message that names the columns of a result.
const ROW_DESCRIPTION: u8 = b'T';
/// The one parsed statement. It has a name, because the lookup of types removes an unnamed one.
const STATEMENT: &str = "query_broker";

/// The status of a connection outside any transaction.
const OUTSIDE_TRANSACTION: u8 = b'I';

/// One logged-in connection.
pub(crate) struct Session {
    stream: Box<dyn DatabaseStream>,
    input: BytesMut,
    output: BytesMut,
    /// `ReadyForQuery` messages that are still to come.
    owed: usize,
    status: u8,
    affected: u64,
    /// Where memory for large messages comes from. Without it there are none.
    memory: Option<OwnerMemory>,
    /// Memory of the large message that was read last.
    large: Option<MemoryShare>,
    pub cancel_key: (i32, i32),
    pub opened: Instant,
    pub types: TypeCatalog,
}

/// A column of a result.
pub(crate) struct ResultColumn {
    pub name: String,
    pub oid: u32,
}

/// A parsed statement: the types of its parameters and its columns.
pub(crate) struct PreparedStatement {
    pub params: Vec<u32>,
    pub columns: Vec<ResultColumn>,
}

impl Session {
    /// Takes a fresh stream. The login comes next and counts as the first answer owed.
    pub fn new(stream: Box<dyn DatabaseStream>) -> Self {
        let (input, output) = (BytesMut::new(), BytesMut::new());
        let (cancel_key, opened, types) = ((0, 0), Instant::now(), TypeCatalog::default());
        let (memory, large) = (None, None);
        Self { stream, input, output, owed: 1, status: 0, affected: 0, memory, large, cancel_key, opened, types }
    }

    /// Allows large messages.
    pub fn set_memory(&mut self, memory: OwnerMemory) {
        self.memory = Some(memory);
    }

    /// Whether nothing is under way.
    pub fn is_clean(&self) -> bool {
        self.owed == 0
    }

    /// Whether a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.status != OUTSIDE_TRANSACTION
    }

    /// Rows that the last statements changed, as their command tags say.
    pub fn affected(&self) -> u64 {
        self.affected
    }

    /// Writes a message of the login.
    pub async fn send(
        &mut self,
        message: impl FnOnce(&mut BytesMut) -> std::io::Result<()>,
    ) -> Result<(), SessionFailure> {
        message(&mut self.output)?;
        self.flush().await
    }

    /// Runs a statement of ours and throws away its rows.
    pub async fn run(&mut self, sql: &str) -> Result<(), SessionFailure> {
        self.start_simple(sql).await?;
        while self.next_row().await?.is_some() {}
        Ok(())
    }

    /// Runs a statement of ours and collects its few rows.
    pub async fn collect(&mut self, sql: &str) -> Result<Vec<Vec<String>>, SessionFailure> {
        self.start_simple(sql).await?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = self.next_row().await? {
            let cell = |range: Option<std::ops::Range<usize>>| {
                Ok(range.map_or_else(String::new, |range| String::from_utf8_lossy(&row.buffer()[range]).into_owned()))
            };
            let cells: Vec<String> = row.ranges().map(cell).collect()?;
            // A row or a cell takes memory even if it is empty.
            bytes += size_of::<Vec<String>>() + cells.len() * size_of::<String>() + row.buffer().len();
            if bytes > limits::COLLECTED_BYTES_MAX {
                return Err(BrokerFault::too_large("the result", limits::COLLECTED_BYTES_MAX).into());
            }
            rows.push(cells);
        }
        Ok(rows)
    }

    /// Starts statements by the simple protocol. Read the rows next.
    pub async fn start_simple(&mut self, sql: &str) -> Result<(), SessionFailure> {
        self.affected = 0;
        if sql.contains('\0') {
            return Err(has_zero().into());
        }
        frontend::query(sql, &mut self.output)?;
        self.owed += 1;
        self.flush().await
    }

    /// Parses a statement, without running it.
    pub async fn prepare(&mut self, sql: &str) -> Result<PreparedStatement, SessionFailure> {
        if sql.contains('\0') {
            return Err(has_zero().into());
        }
        frontend::close(b'S', STATEMENT, &mut self.output)?;
        frontend::parse(STATEMENT, sql, [], &mut self.output)?;
        frontend::describe(b'S', STATEMENT, &mut self.output)?;
        self.sync().await?;
        let mut prepared = PreparedStatement { params: Vec::new(), columns: Vec::new() };
        loop {
            match self.next().await? {
                Message::ParameterDescription(body) => {
                    prepared.params = body.parameters().take(limits::PARAMETERS_MAX).collect()?;
                }
                Message::RowDescription(body) => {
                    let column = |field: postgres_protocol::message::backend::Field<'_>| {
                        Ok(ResultColumn { name: field.name().to_owned(), oid: field.type_oid() })
                    };
                    prepared.columns = body.fields().take(limits::COLUMNS_MAX).map(column).collect()?;
                }
                Message::ErrorResponse(body) => return Err(self.fail(body).await),
                Message::ReadyForQuery(_) if self.is_clean() => return Ok(prepared),
                _ => {}
            }
        }
    }

    /// Starts the parsed statement. Read the rows next. Zero rows means all.
    pub async fn start(&mut self, params: Vec<Option<String>>, rows_max: i32) -> Result<(), SessionFailure> {
        self.affected = 0;
        let write = |value: Option<String>, buffer: &mut BytesMut| match value {
            None => Ok(IsNull::Yes),
            Some(text) => {
                buffer.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
        };
        // No formats: parameters and results are text.
        frontend::bind("", STATEMENT, [], params, write, [], &mut self.output)
            .map_err(|_| BrokerFault::bad("the parameters are too large").with_code("54000"))?;
        frontend::execute("", rows_max, &mut self.output)?;
        self.sync().await
    }

    /// Reads the next row. `None` means that all is done and, outside a transaction, committed.
    pub async fn next_row(&mut self) -> Result<Option<DataRowBody>, SessionFailure> {
        loop {
            match self.next().await? {
                Message::DataRow(row) => return Ok(Some(row)),
                Message::CommandComplete(body) => self.affected = self.affected.saturating_add(rows_of(&body)),
                Message::ErrorResponse(body) => return Err(self.fail(body).await),
                Message::CopyInResponse(_) | Message::CopyOutResponse(_) => {
                    let error = "COPY from or to the client does not work over HTTP";
                    return Err(BrokerFault::bad(error).with_code("0A000").into());
                }
                Message::ReadyForQuery(_) if self.is_clean() => return Ok(None),
                _ => {}
            }
        }
    }

    /// Sends the reset, whose answer `settle` reads before the next use.
    pub async fn send_reset(&mut self) -> Result<(), SessionFailure> {
        if self.is_in_transaction() {
            frontend::query(RESET_TRANSACTION, &mut self.output)?;
            self.owed += 1;
        }
        frontend::query(RESET_SESSION, &mut self.output)?;
        self.owed += 1;
        self.flush().await
    }

    /// Checks that a pooled connection was reset and still lives.
    pub async fn settle(&mut self) -> Result<(), SessionFailure> {
        let replies = async {
            while !self.is_clean() {
                if let Message::ErrorResponse(body) = self.next().await? {
                    return Err(SessionFailure::from(BrokerFault::from_server(&body)));
                }
            }
            Ok(())
        };
        timeout(limits::RESET_MAX, replies).await.map_err(|_| SessionFailure::Lost("reset timed out".into()))??;
        // Anything more to read is the end of the stream or the server's farewell.
        match timeout(Duration::ZERO, self.stream.read_buf(&mut self.input)).await {
            Err(_) if self.input.is_empty() => Ok(()),
            _ => Err(SessionFailure::Lost("closed while idle".into())),
        }
    }

    /// Says goodbye, so that the server need not notice by itself.
    pub async fn close(mut self) {
        frontend::terminate(&mut self.output);
        let _ = timeout(limits::RESET_MAX, self.flush()).await;
    }

    /// Reads the next message that is no notice.
    pub async fn next(&mut self) -> Result<Message, SessionFailure> {
        loop {
            let message = self.read().await?;
            match message {
                Message::NoticeResponse(_) | Message::NotificationResponse(_) | Message::ParameterStatus(_) => {}
                Message::ReadyForQuery(ref body) => {
                    let Some(owed) = self.owed.checked_sub(1) else {
                        return Err(SessionFailure::Lost("an answer without a question".into()));
                    };
                    (self.owed, self.status) = (owed, body.status());
                    return Ok(message);
                }
                _ => return Ok(message),
            }
        }
    }

    /// Reads what follows an error, up to the point where the connection can be used again.
    async fn fail(&mut self, body: ErrorResponseBody) -> SessionFailure {
        let fault = BrokerFault::from_server(&body);
        // It may be large, and its memory is given back with the next message.
        drop(body);
        while !self.is_clean() && self.next().await.is_ok() {}
        fault.into()
    }

    async fn read(&mut self) -> Result<Message, SessionFailure> {
        if self.large.take().is_some() {
            // The old buffer has the size of the large message.
            self.input = BytesMut::from(&self.input[..]);
        }
        loop {
            if let Some(header) = Header::parse(&self.input)?
                && self.large.is_none()
            {
                let bytes = usize::try_from(header.len()).unwrap_or(usize::MAX);
                // It is kept for as long as the rows come. Names have 63 bytes at most.
                if header.tag() == ROW_DESCRIPTION && bytes > limits::LARGE_BYTES_MIN {
                    return Err(SessionFailure::Lost("the names of the columns are too long".into()));
                }
                self.make_room(bytes).await?;
            }
            if let Some(message) = Message::parse(&mut self.input)? {
                return Ok(message);
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(SessionFailure::Lost("the server closed it".into()));
            }
        }
    }

    /// Waits for memory for a message that is large.
    async fn make_room(&mut self, bytes: usize) -> Result<(), SessionFailure> {
        if bytes <= limits::LARGE_BYTES_MIN {
            return Ok(());
        }
        match &self.memory {
            Some(memory) if bytes <= limits::MESSAGE_BYTES_MAX => {
                self.large = memory.take(bytes, limits::MESSAGE_COPIES).await;
                // At once, because growing step by step copies, and may take twice as much.
                self.input.reserve((bytes + 1).saturating_sub(self.input.len()));
                Ok(())
            }
            Some(_) => Err(BrokerFault::too_large("a row", limits::MESSAGE_BYTES_MAX).into()),
            None => Err(SessionFailure::Lost("the server sent a message that is too long".into())),
        }
    }

    async fn sync(&mut self) -> Result<(), SessionFailure> {
        frontend::sync(&mut self.output);
        self.owed += 1;
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), SessionFailure> {
        self.stream.write_all_buf(&mut self.output).await?;
        Ok(self.stream.flush().await?)
    }
}

/// Reads the last word of a command tag such as `INSERT 0 3`.
fn rows_of(body: &CommandCompleteBody) -> u64 {
    body.tag().ok().and_then(|tag| tag.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

fn has_zero() -> BrokerFault {
    BrokerFault::bad("sql must not contain a zero byte").with_code("22021")
}
