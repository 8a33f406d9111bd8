"use strict";
// Comfort alone: everything works without this.
const answer = document.getElementById("answer");
if (answer) { answer.scrollIntoView(); answer.focus({ preventScroll: true }); }
const question = document.getElementById("question");
if (question) {
  question.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { question.form.requestSubmit(); }
  });
}
