// A button on each block of code that copies it. Without this script there is none, and the guide is the same otherwise.

for (const block of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
    } catch {
      // A page that came by http from another machine has no clipboard.
      getSelection().selectAllChildren(block);
      if (!document.execCommand("copy")) return;
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  const around = document.createElement("div");
  around.className = "code";
  block.replaceWith(around);
  // A block that is too wide is scrolled by keyboard, too.
  block.tabIndex = 0;
  around.append(block, button);
}
