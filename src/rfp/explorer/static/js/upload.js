// Opening a file: dropped anywhere on the page, or chosen.

import { postFile } from "./api.js";
import { toast } from "./messages.js";

export function uploading({ limits, choices }, onGraph) {
  const zone = document.querySelector("#drop");
  const file = document.querySelector("#file");
  const button = document.querySelector("#open-file");
  const megabytes = Math.round(limits.upload_bytes / 1e6);
  document.querySelector("#drop-hint").textContent = `Edge list, Parquet, .npz, .mtx or GraphML; up to ${megabytes} MB, ${limits.nodes.toLocaleString("en")} nodes`;
  file.accept = [...choices.suffixes, ".gz"].join(",");
  let inside = 0;

  async function send(chosen) {
    if (chosen.size > limits.upload_bytes) {
      toast(`${chosen.name} has ${Math.round(chosen.size / 1e6)} MB; up to ${megabytes} MB are taken here. Give it on the command line instead: rfp explore ${chosen.name}`, "bad");
      return;
    }
    button.disabled = true;
    button.textContent = "Reading…";
    try {
      const { key } = await postFile(chosen);
      await onGraph(key);
    } catch (error) {
      toast(error.message, "bad");
    } finally {
      button.disabled = false;
      button.textContent = "Open";
    }
  }

  button.addEventListener("click", () => file.click());
  file.addEventListener("change", () => {
    if (file.files[0]) send(file.files[0]);
    file.value = "";
  });
  const holdsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => { if (holdsFiles(event)) { inside++; zone.hidden = false; } });
  addEventListener("dragleave", (event) => { if (holdsFiles(event) && --inside <= 0) { inside = 0; zone.hidden = true; } });
  addEventListener("dragover", (event) => { if (holdsFiles(event)) event.preventDefault(); });
  addEventListener("drop", (event) => {
    inside = 0;
    zone.hidden = true;
    if (!holdsFiles(event)) return;
    event.preventDefault();
    if (event.dataTransfer.files.length > 1) toast("One file at a time: the first one is opened.");
    send(event.dataTransfer.files[0]);
  });
}
