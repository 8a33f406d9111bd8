// The page that asks a model in the browser. Nothing is loaded before a model is chosen, and nothing is sent.
"use strict";

(() => {
  const here = new URL(".", document.currentScript.src);
  const part = (name) => document.getElementById(`browser-${name}`);
  let worker = null;

  function asked(message) {
    worker ??= new Worker(new URL("worker.js", here));
    return new Promise((resolve) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = () => resolve({ error: "Python cannot run in this browser.", broken: true });
      worker.postMessage(message);
    });
  }

  async function waited(text, message) {
    for (const one of document.querySelectorAll("#browser button, #browser input")) one.disabled = true;
    part("state").textContent = text;
    const told = await asked(message);
    for (const one of document.querySelectorAll("#browser button, #browser input")) one.disabled = false;
    part("state").textContent = told.error ? "" : `Done in ${told.seconds.toFixed(1)} s.`;
    part("error").textContent = told.error ?? "";
    part("error").hidden = !told.error;
    if (told.broken && worker) {
      worker.terminate();
      worker = null;
    }
    return told;
  }

  async function opened(name, read) {
    let content;
    try {
      content = new Uint8Array(await read());
    } catch (error) {
      part("error").textContent = error.message;
      part("error").hidden = false;
      return;
    }
    const text = worker ? "Reading the model …" : "Loading Python, about 20 MB the first time …";
    const told = await waited(text, { content });
    if (told.error) return;
    part("table").innerHTML = told.html; // every text in it is escaped
    part("name").textContent = name;
    part("question").value = told.statement;
    part("answer").replaceChildren();
    part("asking").hidden = false;
    part("question").focus();
  }

  part("demo").addEventListener("click", () =>
    opened("the demonstration's model", async () => {
      const response = await fetch(new URL("runtime/demo.model", here)).catch(() => ({ ok: false }));
      if (!response.ok) throw new Error("This copy of the site has no model of the demonstration. Choose a file.");
      return response.arrayBuffer();
    }),
  );
  part("file").addEventListener("change", ({ target }) => {
    const [file] = target.files;
    if (file) opened(file.name, () => file.arrayBuffer());
  });
  part("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const question = part("question").value;
    const told = await waited("Answering …", { question });
    part("answer").innerHTML = told.html ?? ""; // every text in it is escaped
  });
  part("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) part("form").requestSubmit();
  });
})();
