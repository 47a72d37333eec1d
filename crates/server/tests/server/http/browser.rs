//! A headless Chromium, controlled by its DevTools protocol over two pipes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Maximum time until a condition holds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The command that starts the program, which reads from descriptor 3 and writes to descriptor 4.
const START: &str = "exec chromium --headless=new --no-sandbox --disable-gpu \
     --disable-background-networking --no-first-run --remote-debugging-pipe \
     --user-data-dir=\"$0/profile\" about:blank 3< \"$0/in\" 4> \"$0/out\"";

/// A headless browser.
pub struct Browser {
    child: Child,
    input: File,
    output: BufReader<File>,
    last: u64,
    session: Option<String>,
    complaints: Vec<String>,
    _directory: TempDir,
}

impl Browser {
    /// Starts the browser.
    pub fn start() -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let found = Command::new("chromium").arg("--version").output().map_err(text)?;
        if !found.status.success() {
            return Err(format!("chromium --version: {}", found.status));
        }
        let directory = TempDir::new().map_err(text)?;
        let path = directory.path();
        let (input, output) = (path.join("in"), path.join("out"));
        let made = Command::new("mkfifo").args([&input, &output]).status().map_err(text)?;
        assert!(made.success(), "mkfifo");
        let child = Command::new("sh")
            .args(["-c", START])
            .arg(path)
            .stderr(Stdio::null())
            .spawn()
            .map_err(text)?;
        // The shell opens the two pipes in this order, and each open waits for the other side.
        let input = OpenOptions::new().write(true).open(input).map_err(text)?;
        let output = BufReader::new(File::open(output).map_err(text)?);
        Ok(Self {
            child,
            input,
            output,
            last: 0,
            session: None,
            complaints: Vec::new(),
            _directory: directory,
        })
    }

    /// Opens a page.
    pub fn open(mut self, url: &str) -> Result<Self, String> {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", target)?;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Runtime.enable", "Log.enable"] {
            self.call(domain, json!({}))?;
        }
        self.call("Page.navigate", json!({ "url": url }))?;
        Ok(self)
    }

    /// Resizes the window.
    pub fn resize(&mut self, width: u32, height: u32) -> Result<(), String> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": true });
        self.call("Emulation.setDeviceMetricsOverride", size).map(drop)
    }

    /// Waits until an expression is true. An expression that fails is retried.
    pub fn until(&mut self, expression: &str) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let of = json!({ "expression": expression, "returnByValue": true });
            let result = self.call("Runtime.evaluate", of)?;
            if result["result"]["value"] == json!(true) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                let of = json!({ "expression": "document.body.innerText", "returnByValue": true });
                let shown = self.call("Runtime.evaluate", of)?;
                return Err(format!("{expression} is {result}: {}", shown["result"]["value"]));
            }
            sleep(Duration::from_millis(100));
        }
    }

    /// Returns the exceptions and errors of the page, such as violations of its content security
    /// policy.
    pub fn complaints(self) -> Vec<String> {
        self.complaints.clone()
    }

    /// Calls a method and waits for its result.
    fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let text = |error: std::io::Error| error.to_string();
        self.input.write_all(format!("{message}\0").as_bytes()).map_err(text)?;
        loop {
            let mut answer = Vec::new();
            if self.output.read_until(0, &mut answer).map_err(text)? == 0 {
                return Err("the browser has ended".to_owned());
            }
            answer.pop();
            let answer: Value = serde_json::from_slice(&answer).map_err(|e| e.to_string())?;
            if answer["id"] == json!(self.last) {
                return match answer.get("error") {
                    Some(error) => Err(format!("{method}: {error}")),
                    None => Ok(answer["result"].clone()),
                };
            }
            let is_error = answer["params"]["entry"]["level"] == "error";
            if is_error || answer["method"] == "Runtime.exceptionThrown" {
                self.complaints.push(answer["params"].to_string());
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
