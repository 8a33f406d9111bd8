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
