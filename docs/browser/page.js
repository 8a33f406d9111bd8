// The page that asks a model in the browser. Nothing is loaded before a model is chosen, and nothing is sent.
"use strict";

(() => {
  const here = new URL(".", document.currentScript.src);
  const part = (name) => document.getElementById(`browser-${name}`);
  const demo = new URL("runtime/demo.model", here);
  const controls = document.querySelectorAll("#browser button, #browser input");
  let worker = null;
  let model = null; // its file: a worker that is new has to be given it again
  let busy = false;

  function asked(message) {
    worker ??= new Worker(new URL("worker.js", here));
    return new Promise((resolve) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = () => resolve({ error: "Python cannot run in this browser.", broken: true });
      worker.postMessage(message);
    });
  }

  function told(error) {
    part("error").textContent = error;
    part("error").hidden = !error;
  }

  // One thing is done at a time: an answer that comes belongs to what was asked last.
  async function alone(work) {
    if (busy) return;
    const focused = document.activeElement;
    busy = part("question").readOnly = true;
    for (const one of controls) one.disabled = true;
    try {
      await work();
    } catch (error) {
      part("state").textContent = "";
      told(error.message);
    } finally {
      busy = part("question").readOnly = false;
      for (const one of controls) one.disabled = false;
      if (document.activeElement === document.body) focused?.focus(); // what is disabled loses it
    }
  }

  async function waited(text, message) {
    part("state").textContent = text;
    const found = await asked(message);
    if (found.broken) {
      worker.terminate();
      worker = null;
    }
    if (found.error) throw new Error(found.error);
    part("state").textContent = `Done in ${found.seconds.toFixed(1)} s.`;
    told("");
    return found;
  }

  async function opened(name, read) {
    const content = new Uint8Array(await read());
    const text = worker ? "Reading the model …" : "Loading Python, about 20 MB the first time …";
    const found = await waited(text, { content });
    model = content;
    part("table").innerHTML = found.html; // every text in it is escaped
    part("name").textContent = name;
    part("question").value = found.statement;
    part("answer").replaceChildren();
    part("asking").hidden = false;
    part("question").focus();
  }

  function found(method = "GET") {
    return fetch(demo, { method }).catch(() => ({ ok: false }));
  }

  async function demonstration() {
    const response = await found();
    if (!response.ok) throw new Error("The demonstration's model cannot be loaded now. Try again, or choose a file.");
    return response.arrayBuffer();
  }

  async function answered() {
    const question = part("question").value;
    part("answer").replaceChildren(); // it is no answer to what is asked now
    const found = await waited("Answering …", worker ? { question } : { content: model, question });
    part("answer").innerHTML = found.html; // every text in it is escaped
  }

  part("demo").addEventListener("click", () => alone(() => opened("the demonstration's model", demonstration)));
  part("file").addEventListener("click", ({ target }) => {
    target.value = ""; // else the same file, chosen again, is no change
  });
  part("file").addEventListener("change", ({ target }) => {
    const [file] = target.files;
    if (file) alone(() => opened(file.name, () => file.arrayBuffer()));
  });
  part("form").addEventListener("submit", (event) => {
    event.preventDefault();
    alone(answered);
  });
  part("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) part("form").requestSubmit();
  });
  // The model lies beside all that is loaded: without it there is nothing to choose.
  found("HEAD").then(({ ok }) => (part(ok ? "choice" : "absent").hidden = false));
  for (const one of controls) one.disabled = false; // some browsers keep it when a page is loaded again
})();
