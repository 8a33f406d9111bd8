"use strict";
// Comfort alone: everything works without this.
const outcome = document.getElementById("outcome");
if (outcome) { outcome.scrollIntoView(); outcome.focus({ preventScroll: true }); }
const question = document.getElementById("question");
if (question) {
  question.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { question.form.requestSubmit(); }
  });
}
// A button beside each text that is made to be taken elsewhere.
for (const code of document.querySelectorAll("pre.code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "second";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy for ${code.parentElement.getAttribute("aria-label")}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // where the clipboard is not given, the text is marked
      button.textContent = "Marked";
    }
  });
  code.parentElement.after(button);
}
// A chart as PNG: its own SVG file, drawn twice as large.
for (const link of document.querySelectorAll("a[data-chart]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  button.textContent = link.textContent.replace("SVG", "PNG");
  button.addEventListener("click", () => {
    const image = new Image();
    image.addEventListener("load", () => {
      const canvas = document.createElement("canvas");
      const box = document.querySelector("figure svg").viewBox.baseVal;
      const ratio = image.naturalHeight / image.naturalWidth || box.height / box.width;
      canvas.width = 2 * box.width;
      canvas.height = Math.round(canvas.width * ratio);
      const pen = canvas.getContext("2d");
      pen.fillStyle = getComputedStyle(document.body).backgroundColor;
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => {
        const file = document.createElement("a");
        file.href = URL.createObjectURL(blob);
        file.download = "chart.png";
        file.click();
        setTimeout(() => URL.revokeObjectURL(file.href), 1000);
      });
    });
    image.src = link.href;
  });
  link.after(" · ", button);
}
