// Draws the charts of a report. What they show stands on the page itself.

const { series, events } = JSON.parse(document.getElementById("history").textContent);
const said = document.getElementById("event");
for (const chart of timeCharts((event) => (said.textContent = event ? `${stamp(event.time)} ${event.kind}: ${event.host ?? ""} ${event.text}` : ""))) chart.draw(series, events);
