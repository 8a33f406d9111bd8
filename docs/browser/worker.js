// Python beside the page, so that the page does not stand still. What it loads lies beside this file.
"use strict";

const RUNTIME = new URL("runtime/", self.location.href).href;
let python = null; // a promise of what opens models and answers questions

async function fetched(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address} is missing (${response.status})`);
  return response;
}

async function started() {
  try {
    importScripts(`${RUNTIME}pyodide.js`);
  } catch {
    throw new Error(
      "This copy of the site has no Python to run: scripts/build_browser.py adds it, and a web server has to serve it.",
    );
  }
  const pyodide = await loadPyodide({ indexURL: RUNTIME });
  const [packages, source] = await Promise.all([
    fetched(`${RUNTIME}packages.zip`).then((one) => one.arrayBuffer()),
    fetched(new URL("model.py", self.location.href)).then((one) => one.text()),
    pyodide.loadPackage(["numpy", "sqlite3"], { messageCallback: () => {} }), // checked against the lock
  ]);
  pyodide.unpackArchive(packages, "zip", { extractDir: pyodide.runPython("import site; site.getsitepackages()[0]") });
  pyodide.FS.writeFile("/home/pyodide/model.py", source);
  const model = pyodide.pyimport("model");
  return { opened: (content) => model.opened(pyodide.toPy(content)), answered: (text) => model.answered(text) };
}

self.onmessage = async ({ data }) => {
  const began = performance.now();
  let told;
  try {
    python ??= started();
    const model = await python;
    if ("content" in data) told = JSON.parse(model.opened(data.content));
    if ("question" in data && !told?.error) told = JSON.parse(model.answered(data.question));
  } catch (error) {
    python = null;
    told = { error: String(error.message ?? error), broken: true };
  }
  self.postMessage({ ...told, seconds: (performance.now() - began) / 1000 });
};
